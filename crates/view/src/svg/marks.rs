// SPDX-License-Identifier: GPL-2.0-only
//! How causes look: a colour each, and for every second one a pattern too, so that neighbours are
//! told apart without colour.

use super::canvas::{text_width, Anchor, Size, Svg};
use paratick_core::cause::Cause;

/// The slant of a cause's hatching, in degrees; none for a plain fill.
fn hatching(cause: Cause) -> Option<u32> {
    match cause {
        Cause::Stop => Some(45),
        Cause::HostTick => Some(135),
        Cause::HostTimer => Some(45),
        Cause::Ipi => Some(90),
        Cause::Clock => Some(135),
        Cause::Io => Some(45),
        Cause::Other => Some(135),
        _ => None,
    }
}

/// Defines the patterns of one drawing; needed once before [`swatch`].
pub fn define(svg: &mut Svg) {
    let mut slants: Vec<u32> = Cause::ALL.into_iter().filter_map(hatching).collect();
    slants.sort_unstable();
    slants.dedup();
    let id = svg.id.clone();
    svg.raw("<defs>");
    for slant in slants {
        svg.raw(&format!(
            "<pattern id=\"{id}-h{slant}\" width=\"6\" height=\"6\" \
             patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate({slant})\">\
             <line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"hatch\"/></pattern>"
        ));
    }
    svg.raw("</defs>");
}

/// A rectangle in the look of a cause.
pub fn swatch(svg: &mut Svg, (x, y): (f64, f64), (width, height): (f64, f64), cause: Cause) {
    svg.rect((x, y), (width, height), cause.name());
    if let Some(slant) = hatching(cause) {
        let fill = format!("url(#{}-h{slant})", svg.id);
        svg.raw(&format!(
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" \
             fill=\"{fill}\"/>"
        ));
    }
}

/// Names the causes, in as many lines as it takes.  Returns where it ends.
pub fn legend(svg: &mut Svg, size: Size, causes: &[Cause]) -> f64 {
    let (mut x, mut y) = (0.0, 14.0);
    for cause in causes {
        let width = 20.0 + text_width(cause.name()) + 10.0;
        if x > 0.0 && x + width > size.width() {
            (x, y) = (0.0, y + 20.0);
        }
        swatch(svg, (x, y - 11.0), (14.0, 13.0), *cause);
        svg.text((x + 20.0, y), Anchor::Start, "", cause.name());
        x += width;
    }
    y + 14.0
}
