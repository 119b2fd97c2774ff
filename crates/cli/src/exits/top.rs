// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick exits --top` shows, and what its keys do.

use paratick_core::observed::{mostly, sum, Exits, Observed, Spent, Vm};
use paratick_view::{
    number::{count, decimal, nanos, or_nothing},
    table::plain,
    tables::observed::bound,
};
use ratatui::{
    crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout},
    style::{Modifier, Style},
    text::Line,
    widgets::{Cell, Row, Table, TableState},
    Frame,
};
use std::cmp::Ordering;

pub struct Top {
    /// All since the start, and what came since the look before.
    seen: Observed,
    lately: Observed,
    sort: Sort,
    /// The process of the VM whose vCPUs and causes are shown.
    open: Option<u32>,
    /// The line that is marked, wherever sorting puts it; none: the first.
    marked: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Exits,
    Cpu,
    Steal,
    Name,
}

impl Sort {
    const ALL: [(char, Sort, &'static str); 4] = [
        ('e', Sort::Exits, "e exits"),
        ('c', Sort::Cpu, "c CPU"),
        ('s', Sort::Steal, "s steal"),
        ('n', Sort::Name, "n name"),
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Stay,
    Leave,
    Interrupt,
}

/// One line of either table.
struct Shown {
    key: String,
    exits: u64,
    cpu_ns: u64,
    steal_ns: u64,
    cells: Vec<String>,
    ended: bool,
}

/// A heading, how wide its column is, and whether it has words.
type Column = (&'static str, Constraint, bool);

const VMS: [Column; 8] = [
    ("VM", Constraint::Fill(2), true),
    ("vCPU", Constraint::Length(4), false),
    ("Exits/s", Constraint::Length(8), false),
    ("CPU %", Constraint::Length(6), false),
    ("KVM %", Constraint::Length(6), false),
    ("VMM %", Constraint::Length(6), false),
    ("Steal%", Constraint::Length(6), false),
    ("Mostly", Constraint::Fill(3), true),
];

const KINDS: [Column; 9] = [
    ("vCPU", Constraint::Length(4), false),
    ("Cause", Constraint::Length(10), true),
    ("Exits/s", Constraint::Length(8), false),
    ("CPU %", Constraint::Length(6), false),
    ("VMM %", Constraint::Length(6), false),
    ("Steal%", Constraint::Length(6), false),
    ("Mean", Constraint::Length(8), false),
    ("99% in", Constraint::Length(8), false),
    ("What", Constraint::Fill(1), true),
];

impl Top {
    pub fn of(seen: Observed) -> Top {
        Top { lately: seen.clone(), seen, sort: Sort::Exits, open: None, marked: None }
    }

    pub fn update(&mut self, seen: Observed) {
        self.lately = seen.since(&self.seen);
        self.seen = seen;
    }

    pub fn press(&mut self, key: KeyEvent) -> Step {
        if key.kind == KeyEventKind::Release {
            return Step::Stay;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Step::Interrupt;
            }
            KeyCode::Char('q') => return Step::Leave,
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-10),
            KeyCode::PageDown => self.go(10),
            KeyCode::Enter | KeyCode::Right if self.opened().is_none() => {
                let (lines, at) = self.lines();
                self.open = lines.get(at).and_then(|line| line.key.parse().ok());
                self.marked = None;
            }
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => {
                self.marked = self.open.take().map(|process| process.to_string());
            }
            KeyCode::Char(letter) => {
                let sort = Sort::ALL.iter().find(|(key, ..)| *key == letter);
                self.sort = sort.map_or(self.sort, |(_, sort, _)| *sort);
            }
            _ => {}
        }
        Step::Stay
    }

    fn go(&mut self, by: isize) {
        let (lines, at) = self.lines();
        let last = lines.len().saturating_sub(1);
        let to = at.saturating_add_signed(by).min(last);
        self.marked = lines.into_iter().nth(to).map(|line| line.key);
    }

    /// Sorted, and which of them is marked.
    fn lines(&self) -> (Vec<Shown>, usize) {
        let mut lines: Vec<Shown> = match self.opened() {
            Some(vm) => {
                vm.exits.iter().filter(|e| e.spent.count > 0).map(|e| of_kind(vm, e)).collect()
            }
            None => self.lately.vms.iter().map(of_vm).collect(),
        };
        let by = |a: &Shown, b: &Shown| match self.sort {
            Sort::Exits => b.exits.cmp(&a.exits),
            Sort::Cpu => b.cpu_ns.cmp(&a.cpu_ns),
            Sort::Steal => b.steal_ns.cmp(&a.steal_ns),
            Sort::Name => Ordering::Equal,
        };
        lines.sort_by(|a, b| by(a, b).then_with(|| a.cells.cmp(&b.cells)));
        let at = lines.iter().position(|line| Some(&line.key) == self.marked.as_ref());
        (lines, at.unwrap_or(0))
    }

    fn opened(&self) -> Option<&Vm> {
        self.lately.vms.iter().find(|vm| Some(vm.process) == self.open)
    }

    pub fn draw(&self, frame: &mut Frame) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Line::from(self.head()).style(Modifier::BOLD), head);
        let (lines, at) = self.lines();
        let columns = if self.opened().is_some() { &KINDS[..] } else { &VMS[..] };
        let rows = lines.iter().map(|line| {
            let row =
                Row::new(line.cells.iter().zip(columns).map(|(text, column)| cell(text, column)));
            if line.ended {
                row.style(Modifier::DIM)
            } else {
                row
            }
        });
        let table = Table::new(rows, columns.iter().map(|column| column.1))
            .header(Row::new(columns.iter().map(|c| cell(c.0, c))).style(Modifier::UNDERLINED))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected((!lines.is_empty()).then_some(at));
        frame.render_stateful_widget(table, body, &mut state);
        frame.render_widget(Line::from(self.foot()), foot);
    }

    fn head(&self) -> String {
        let all = self.opened().map_or_else(|| self.lately.total(), Vm::all);
        let seconds = self.lately.ns.max(1) as f64 / 1e9;
        let lost = self.seen.lost + self.seen.vms.iter().map(|vm| vm.lost).sum::<u64>();
        let lost = if lost > 0 { format!("   LOST {}", count(lost as f64)) } else { String::new() };
        let what = match self.opened() {
            Some(vm) => format!("{} (process {})", vm.name, vm.process),
            None => paratick_view::number::plural(self.lately.vms.len(), "VM"),
        };
        plain(&format!(
            "paratick exits   {what}   {} exits/s   CPU {} %   last {}{lost}",
            count((all.count as f64 / seconds).round()),
            decimal(all.cpu_ns() as f64 / seconds / 1e7),
            nanos(self.lately.ns),
        ))
    }

    fn foot(&self) -> String {
        let sorts = Sort::ALL.map(|(_, sort, text)| match sort == self.sort {
            true => format!("[{text}]"),
            false => text.into(),
        });
        let open = if self.opened().is_none() { "Enter opens" } else { "Esc closes" };
        format!("q quits  up/down  {open}  sort: {}", sorts.join(" "))
    }
}

fn cell<'a>(text: &'a str, column: &Column) -> Cell<'a> {
    let line = Line::from(text);
    Cell::from(if column.2 { line } else { line.right_aligned() })
}

fn shown(key: String, vm: &Vm, spent: &Spent, cells: Vec<String>) -> Shown {
    Shown {
        key,
        exits: spent.count,
        cpu_ns: spent.cpu_ns(),
        steal_ns: spent.steal_ns,
        cells: cells.iter().map(|text| plain(text)).collect(),
        ended: vm.ended,
    }
}

fn of_vm(vm: &Vm) -> Shown {
    let spent = vm.all();
    let percent = |ns: u64| decimal(vm.share(ns) * 100.0);
    let most = vm
        .causes()
        .first()
        .and_then(|(cause, exits)| Some(format!("{cause} {}", mostly(exits.iter().copied())?.0)));
    let cells = vec![
        format!("{}{}", vm.name, if vm.ended { " (ended)" } else { "" }),
        vm.vcpus().to_string(),
        decimal(vm.per_second(spent.count)),
        percent(spent.cpu_ns()),
        percent(spent.kvm_ns),
        percent(spent.vmm_ns),
        percent(spent.steal_ns),
        most.filter(|_| spent.count > 0).unwrap_or_default(),
    ];
    shown(vm.process.to_string(), vm, &spent, cells)
}

fn of_kind(vm: &Vm, exits: &Exits) -> Shown {
    let Exits { vcpu, kind, .. } = exits;
    let spent = sum([exits]);
    let percent = |ns: u64| decimal(vm.share(ns) * 100.0);
    let cells = vec![
        vcpu.to_string(),
        kind.cause.to_string(),
        decimal(vm.per_second(spent.count)),
        percent(spent.cpu_ns()),
        percent(spent.vmm_ns),
        percent(spent.steal_ns),
        or_nothing(spent.mean_ns(), nanos),
        or_nothing(spent.at_most(0.99), bound),
        kind.words().to_string(),
    ];
    shown(format!("{vcpu} {} {}", kind.reason, kind.words()), vm, &spent, cells)
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
