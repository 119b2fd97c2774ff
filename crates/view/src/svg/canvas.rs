// SPDX-License-Identifier: GPL-2.0-only
//! What every chart is drawn with.

use super::scale::Scale;

/// Every chart is drawn twice.  At its intended width a unit is a pixel and text is 12 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Wide,
    /// For a telephone of 390 pixels.
    Narrow,
}

impl Size {
    pub const ALL: [Size; 2] = [Size::Wide, Size::Narrow];

    pub fn width(self) -> f64 {
        match self {
            Size::Wide => 830.0,
            Size::Narrow => 358.0,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Size::Wide => "wide",
            Size::Narrow => "narrow",
        }
    }

    /// One of two, by size.
    pub fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Size::Wide => wide,
            Size::Narrow => narrow,
        }
    }
}

/// A generous width of a character: fonts differ.
const CHARACTER: f64 = 7.2;

pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// The text, cut where it would be wider than `width`.
pub fn fit(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.into();
    }
    let keep = (width / CHARACTER) as usize;
    let kept: String = text.chars().take(keep.saturating_sub(1)).collect();
    kept + "…"
}

/// The same for text of class `strong`, which is wider.
pub fn fit_strong(text: &str, width: f64) -> String {
    fit(text, width / 1.2)
}

#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// For text and for attributes in double quotes.
pub fn escape(text: &str) -> String {
    // XML has no way to write these.
    let text = text.replace(|c: char| c.is_control() && !c.is_whitespace(), "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub struct Svg {
    /// Prefixes ids of this drawing.
    pub id: String,
    size: Size,
    title: String,
    description: String,
    body: String,
}

impl Svg {
    /// `id` is the figure's; `description` says what the picture shows, for who cannot see it.
    pub fn new(id: &str, size: Size, title: &str, description: &str) -> Self {
        Svg {
            id: format!("{id}-{}", size.name()),
            size,
            title: title.into(),
            description: description.into(),
            body: String::new(),
        }
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.body += &format!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{}" class="{class}">{}</text>"#,
            anchor.name(),
            escape(text)
        );
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.body += &format!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        );
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        self.body += &format!(
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" \
             class=\"{class}\"/>"
        );
    }

    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str) {
        self.body +=
            &format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius:.1}" class="{class}"/>"#);
    }

    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.body += &format!(r#"<polyline points="{}" class="{class}"/>"#, points.join(" "));
    }

    /// Markup that the others do not offer.
    pub fn raw(&mut self, markup: &str) {
        self.body += markup;
    }

    pub fn finish(self, height: f64) -> String {
        let Svg { id, size, title, description, body } = self;
        format!(
            "<svg class=\"{}\" viewBox=\"0 0 {} {height:.0}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title>\
             <desc id=\"{id}-d\">{}</desc>{body}</svg>",
            size.name(),
            size.width(),
            escape(&title),
            escape(&description)
        )
    }
}

/// Ticks with their grid lines from `top` to `bottom`, labels, and the axis's own label below.
/// Returns where it ends.
pub fn axis(svg: &mut Svg, scale: &Scale, (top, bottom): (f64, f64), label: &str) -> f64 {
    for tick in scale.ticks() {
        let x = scale.at(tick);
        svg.line((x, top), (x, bottom), "grid");
        svg.text((x, bottom + 15.0), Anchor::Middle, "muted", &scale.label(tick));
    }
    svg.line((scale.left, bottom), (scale.right, bottom), "axis");
    let middle = (scale.left + scale.right) / 2.0;
    svg.text((middle, bottom + 31.0), Anchor::Middle, "muted", label);
    bottom + 38.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_are_cut_and_short_ones_are_not() {
        assert_eq!(fit("vips", 100.0), "vips");
        let cut = fit("a-program-with-a-long-name", 100.0);
        assert!(cut.ends_with('…') && text_width(&cut) <= 100.0, "{cut}");
    }

    #[test]
    fn a_drawing_is_named_described_and_escaped() {
        let mut svg = Svg::new("f", Size::Narrow, "a & b", "c < d");
        svg.text((0.0, 0.0), Anchor::End, "", "\"e\"");
        let text = svg.finish(10.0);
        assert!(text.contains(r#"role="img" aria-labelledby="f-narrow-t f-narrow-d""#));
        for part in ["a &amp; b</title>", "c &lt; d</desc>", "&quot;e&quot;"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
