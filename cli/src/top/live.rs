//! The terminal: a look every interval, keys in between.

use super::change::Change;
use super::draw::{screen, Screen};
use crate::error::Failure;
use coldset_pager::observe::{read, ObserveError, ProcessSnapshot};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use std::io;
use std::time::{Duration, Instant};

/// Shows the process until `q` is pressed or it ends.
///
/// # Errors
/// The process has ended; the terminal. It is restored in any case.
pub fn run(first: ProcessSnapshot, interval: Duration) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init().map_err(Failure::Terminal)?;
    let done = watch(&mut terminal, first, interval);
    ratatui::restore();
    done
}

fn watch(
    terminal: &mut DefaultTerminal,
    first: ProcessSnapshot,
    interval: Duration,
) -> Result<(), Failure> {
    let pid = first.pid;
    let mut now = first;
    let mut before: Option<ProcessSnapshot> = None;
    let (mut at, mut paused, mut silent) = (0, false, false);
    let mut next_look = Instant::now() + interval;
    loop {
        let change = now.pools.get(at).map(|pool| {
            let earlier = before.iter().flat_map(|b| &b.pools);
            Change::between(earlier.into_iter().find(|b| b.pool == pool.pool), pool)
        });
        let note = match (paused, silent) {
            (true, _) => "paused",
            (_, true) => "the process does not answer",
            _ => "",
        };
        let shown = Screen {
            process: &now,
            at,
            change: change.as_ref(),
            note,
        };
        terminal
            .draw(|f| screen(f, &shown))
            .map_err(Failure::Terminal)?;
        match key_before(next_look).map_err(Failure::Terminal)? {
            Some(k) if quits(&k) => return Ok(()),
            Some(k) => match k.code {
                KeyCode::Tab => at = (at + 1) % now.pools.len().max(1),
                KeyCode::Char('p' | ' ') => paused = !paused,
                _ => {}
            },
            None => {}
        }
        if Instant::now() < next_look {
            continue;
        }
        next_look = Instant::now() + interval;
        if paused {
            continue;
        }
        match read(pid) {
            Ok(new) => {
                silent = false;
                before = Some(std::mem::replace(&mut now, new));
                at = at.min(now.pools.len().saturating_sub(1));
            }
            Err(ObserveError::Silent { .. }) => silent = true,
            Err(ObserveError::NoProcess { .. }) => return Err(ObserveError::Ended { pid }.into()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// The next key, or none if something else happened or the time has come.
fn key_before(then: Instant) -> io::Result<Option<KeyEvent>> {
    let wait = then.saturating_duration_since(Instant::now());
    if !event::poll(wait)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(k) if k.kind != KeyEventKind::Release => Some(k),
        _ => None,
    })
}

fn quits(k: &KeyEvent) -> bool {
    let control = k.modifiers.contains(KeyModifiers::CONTROL);
    matches!(k.code, KeyCode::Char('q') | KeyCode::Esc) || (control && k.code == KeyCode::Char('c'))
}
