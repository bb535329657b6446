//! Curves as characters: lines of Braille dots, a letter for each policy at its points.

use coldset_lab::mrc::Curves;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::widgets::canvas::{Canvas, Line};
use ratatui::Terminal;

const WIDTH: u16 = 78;
const HEIGHT: u16 = 22;

/// A letter for each curve: of its name the first that is free, else of the alphabet.
fn letters<'a>(names: impl Iterator<Item = &'a str>) -> Vec<char> {
    let mut taken: Vec<char> = Vec::new();
    for name in names {
        let own = name.chars().filter(char::is_ascii_alphanumeric);
        let free = own.chain('A'..='Z').find(|c| !taken.contains(c));
        taken.push(free.unwrap_or('*'));
    }
    taken
}

/// Miss ratio over memory, memory on a logarithmic scale. A letter hides those of earlier curves.
pub fn plot(curves: &Curves) -> String {
    let points = || curves.curves.iter().flat_map(|c| &c.points);
    let x = |pages: u64| (pages as f64).log2();
    let ends = |of: &dyn Fn(f64, f64) -> f64, value: &dyn Fn(usize) -> f64| {
        (0..points().count()).map(value).reduce(of)
    };
    let all: Vec<_> = points().copied().collect();
    let (Some(left), Some(right), Some(top)) = (
        ends(&f64::min, &|i| x(all[i].pages)),
        ends(&f64::max, &|i| x(all[i].pages)),
        ends(&f64::max, &|i| all[i].miss_ratio),
    ) else {
        return String::new();
    };
    let (right, top) = (right.max(left + 1e-6), top.max(1e-9));
    let letters = letters(curves.curves.iter().map(|c| c.policy.as_str()));
    let canvas = Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([left, right])
        .y_bounds([0.0, top])
        .paint(|ctx| {
            for curve in &curves.curves {
                for pair in curve.points.windows(2) {
                    ctx.draw(&Line {
                        x1: x(pair[0].pages),
                        y1: pair[0].miss_ratio,
                        x2: x(pair[1].pages),
                        y2: pair[1].miss_ratio,
                        color: Color::Reset,
                    });
                }
            }
            ctx.layer();
            for (curve, letter) in curves.curves.iter().zip(&letters) {
                for p in &curve.points {
                    ctx.print(x(p.pages), p.miss_ratio, letter.to_string());
                }
            }
        });
    // Drawing into memory cannot fail.
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT)).expect("memory");
    terminal
        .draw(|frame| frame.render_widget(canvas, frame.area()))
        .expect("memory");
    let buffer = terminal.backend().buffer();
    let mut out = String::from("miss ratio\n");
    for row in 0..HEIGHT {
        let label = match row {
            0 => format!("{:>7.2} %", 100.0 * top),
            r if r == HEIGHT - 1 => format!("{:>7.2} %", 0.0),
            r if r == HEIGHT / 2 => {
                let share = 1.0 - f64::from(r) / f64::from(HEIGHT - 1);
                format!("{:>7.2} %", 100.0 * top * share)
            }
            _ => " ".repeat(9),
        };
        let cells: String = (0..WIDTH).map(|c| buffer[(c, row)].symbol()).collect();
        out.push_str(format!("{label} | {cells}").trim_end());
        out.push('\n');
    }
    out.push_str(&format!(
        "{} +{}\n",
        " ".repeat(9),
        "-".repeat(WIDTH.into())
    ));
    let (first, last) = (left.exp2().round(), right.exp2().round());
    let (first, last) = (format!("{first} pages"), format!("{last} pages"));
    let gap = usize::from(WIDTH).saturating_sub(first.len() + last.len());
    out.push_str(&format!(
        "{} {first}{}{last}\n{} memory, logarithmic; ",
        " ".repeat(11),
        " ".repeat(gap),
        " ".repeat(11)
    ));
    let legend: Vec<String> = curves
        .curves
        .iter()
        .zip(&letters)
        .map(|(c, l)| format!("{l} {}", c.policy))
        .collect();
    out.push_str(&legend.join(", "));
    out.push('\n');
    out
}
