//! A screen: the budget as a bar, rates and latencies side by side, groups with their generations.

use super::change::Change;
use super::text;
use coldset_pager::observe::{ProcessSnapshot, Snapshot};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use ratatui::Frame;

/// What is shown.
pub struct Screen<'a> {
    /// What the process shows of itself now.
    pub process: &'a ProcessSnapshot,
    /// Which of its pools.
    pub at: usize,
    /// What has happened since the last look.
    pub change: Option<&'a Change>,
    /// Beside the keys: paused, or why nothing is new.
    pub note: &'a str,
}

const PAGES: Color = Color::Green;
const STORE: Color = Color::Yellow;
const ANON: Color = Color::Cyan;
const FILE: Color = Color::Magenta;

/// Draws one frame of `coldset top`.
pub fn screen(f: &mut Frame<'_>, s: &Screen<'_>) {
    let [head, budget, middle, groups] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(4),
        Constraint::Length(16),
        Constraint::Min(3),
    ])
    .areas(f.area());
    let (process, bold) = (s.process, Style::new().add_modifier(Modifier::BOLD));
    let mut keys = "q quit  p pause".to_string();
    if process.pools.len() > 1 {
        keys += "  tab next pool";
    }
    let name = format!("{} ({})", text::shown(&process.program), process.pid);
    let first = Line::from(vec![
        Span::styled(name, bold),
        Span::raw(format!("   {keys}   ")),
        Span::styled(s.note, Style::new().fg(Color::Red)),
    ]);
    let Some(pool) = process.pools.get(s.at) else {
        let lines = vec![first, Line::raw("no pools at the moment")];
        return f.render_widget(Paragraph::new(lines), f.area());
    };
    let lines = vec![first, Line::raw(text::title(pool))];
    f.render_widget(Paragraph::new(lines), head);
    draw_budget(f, budget, pool);
    let [left, right] =
        Layout::horizontal([Constraint::Length(36), Constraint::Min(30)]).areas(middle);
    if let Some(c) = s.change {
        draw_rates(f, left, c);
        draw_latencies(f, right, c);
    }
    draw_groups(f, groups, pool);
}

/// A bar of parts of a whole, each in its colour.
fn bar(width: u16, whole: u64, parts: &[(u64, Color)]) -> Line<'static> {
    let cells = |v: u64| (u128::from(v) * u128::from(width) / u128::from(whole.max(1))) as u64;
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0, 0);
    for &(v, color) in parts {
        sum = text::sum([sum, v]);
        // Something is never drawn as nothing.
        let upto = cells(sum).max(drawn + u64::from(v > 0)).min(width.into());
        let n = (upto - drawn) as usize;
        spans.push(Span::styled("\u{2588}".repeat(n), Style::new().fg(color)));
        drawn = upto;
    }
    let rest = usize::from(width) - drawn as usize;
    let pale = Style::new().fg(Color::DarkGray);
    spans.push(Span::styled("\u{2591}".repeat(rest), pale));
    Line::from(spans)
}

fn draw_budget(f: &mut Frame<'_>, area: Rect, p: &Snapshot) {
    let parts = [(p.resident_bytes, PAGES), (p.store_bytes, STORE)];
    let lines = vec![
        bar(area.width, p.budget_bytes, &parts),
        Line::raw(text::budget(p)),
        Line::raw(text::elsewhere(p)),
    ];
    f.render_widget(Paragraph::new(lines), area);
}

fn draw_rates(f: &mut Frame<'_>, area: Rect, c: &Change) {
    let rows = c.rates.iter().map(|(name, v)| {
        let style = if *v > 0.0 {
            Style::new()
        } else {
            Style::new().fg(Color::DarkGray)
        };
        Row::new([
            Cell::from(*name),
            Cell::from(format!("{:>12}", text::rate(*v))),
        ])
        .style(style)
    });
    let widths = [Constraint::Length(18), Constraint::Length(12)];
    let title = format!(" in a second, over {:.1} s ", c.seconds);
    f.render_widget(
        Table::new(rows, widths).block(Block::bordered().title(title)),
        area,
    );
}

fn draw_latencies(f: &mut Frame<'_>, area: Rect, c: &Change) {
    let rows = c.latencies.iter().map(|(name, d)| {
        let cell = |ns: u64| {
            let shown = if d.count == 0 {
                "-".into()
            } else {
                text::time(ns)
            };
            Cell::from(format!("{shown:>9}"))
        };
        Row::new([
            Cell::from(*name),
            cell(d.median_ns()),
            cell(d.p99_ns()),
            cell(d.max_ns),
        ])
    });
    let widths = [
        Constraint::Length(17),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let head = Row::new(["", "      p50", "      p99", "      max"]);
    let block = Block::bordered().title(" latency ");
    f.render_widget(Table::new(rows, widths).header(head).block(block), area);
}

fn draw_groups(f: &mut Frame<'_>, area: Rect, p: &Snapshot) {
    let all = text::groups(&p.groups);
    let lists: Vec<_> = all.iter().map(|g| text::lists(&g.lists)).collect();
    let longest = lists
        .iter()
        .flatten()
        .map(|l| text::sum([l.1, l.2]))
        .max()
        .unwrap_or(0);
    let width = area.width.saturating_sub(50);
    let mut lines = Vec::new();
    for (g, lists) in all.iter().zip(&lists) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        lines.push(Line::styled(text::group(g), bold));
        // Pages still on their way to a list count in the usage only.
        for (name, anon, file) in lists.iter().filter(|l| text::sum([l.1, l.2]) > 0) {
            let (a, b) = (text::count(*anon), text::count(*file));
            let mut line = Line::raw(format!("  {name:<18}{a:>11} {b:>11}  "));
            line.extend(bar(width, longest, &[(*anon, ANON), (*file, FILE)]).spans);
            lines.push(line);
        }
    }
    let title = Line::from(vec![
        Span::raw(" groups: pages, "),
        Span::styled("anonymous", Style::new().fg(ANON)),
        Span::raw(" and "),
        Span::styled("file", Style::new().fg(FILE)),
        Span::raw(" "),
    ]);
    f.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(title)),
        area,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_pager::observe::snapshot_all;
    use coldset_pager::{FaultMode, Limits, Pool, PoolConfig, SwapConfig};
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    fn shown(s: &Screen<'_>, width: u16, height: u16) -> String {
        let mut t = Terminal::new(TestBackend::new(width, height)).unwrap();
        t.draw(|f| screen(f, s)).unwrap();
        t.backend().to_string()
    }

    #[test]
    fn a_screen_has_budget_rates_latencies_and_generations() {
        let config = PoolConfig::new(2 << 20)
            .fault_mode(FaultMode::Explicit)
            .swap(SwapConfig::lz4(32 << 20));
        let pool = Pool::new(config).unwrap();
        let group = pool.group("tables", Limits::new().low(1 << 20)).unwrap();
        let region = group.anonymous(8 << 20).unwrap();
        for p in 0..2048 {
            region.fix_mut(p).unwrap()[5] = 1;
        }
        let process = snapshot_all();
        let change = Change::between(None, &process.pools[0]);
        let mut s = Screen {
            process: &process,
            at: 0,
            change: Some(&change),
            note: "",
        };
        let text = shown(&s, 100, 50);
        for part in [
            "of 2 MiB (",
            "evictions",
            "refaults",
            "p99",
            "wait for the lock",
            "/tables",
            "low 1 MiB",
            "gen ",
            "\u{2588}\u{2588}",
            "policy v5",
            "q quit",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(!text.contains("tab next pool"));
        // Any size is drawn.
        for (w, h) in [(1, 1), (20, 5), (40, 12), (300, 100)] {
            shown(&s, w, h);
        }
        s.at = 7;
        assert!(shown(&s, 80, 24).contains("no pools"));
    }

    #[test]
    fn bars_have_their_width_and_hide_nothing() {
        for (whole, parts) in [(100, [50, 25]), (1000, [1, 1]), (10, [10, 5]), (0, [0, 0])] {
            let parts = parts.map(|v| (v, ANON));
            let line = bar(40, whole, &parts);
            assert_eq!(line.width(), 40);
            for (span, part) in line.spans.iter().zip(parts) {
                assert!(
                    span.width() > 0 || part.0 == 0 || whole == 10,
                    "{whole} {part:?}"
                );
            }
        }
    }
}
