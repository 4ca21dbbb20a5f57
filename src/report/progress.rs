//! Progress with time left on stderr; where that is not a terminal, only what the run waits for.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt;
use std::sync::Mutex;

/// What the pipeline says while it works.
#[derive(Clone, Debug)]
pub enum Event {
    Began {
        phase: Phase,
        steps: u64,
    },
    /// One step done; `what` is the next thing to read: a case, a unit.
    Stepped {
        phase: Phase,
        what: String,
    },
    /// A line of its own, such as what an installer prints.
    Said(String),
    /// Told wherever stderr leads: why nothing goes on, as a log without it would just stand still; what a
    /// reader of the log has to know.
    Waiting(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Install,
    Build,
    Reference,
    Check,
    Estimate,
    Simulate,
    Time,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Install => "installing",
            Self::Build => "building",
            Self::Reference => "reference",
            Self::Check => "checking",
            Self::Estimate => "estimating",
            Self::Simulate => "simulating",
            Self::Time => "timing",
        })
    }
}

/// One bar at a time: phases overlap, and the latest one is what the run is waiting for.
pub struct Progress {
    bars: Mutex<Vec<(Phase, ProgressBar)>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            bars: Mutex::new(Vec::new()),
        }
    }
}

impl Progress {
    pub fn on(&self, event: Event) {
        let Ok(mut bars) = self.bars.lock() else {
            return;
        };
        match event {
            Event::Began { phase, steps } => {
                // indicatif hides a bar whose target is no terminal.
                let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
                if let Ok(style) = ProgressStyle::with_template(
                    "{prefix:>10} [{bar:24}] {pos}/{len} {eta:>4} left  {wide_msg}",
                ) {
                    bar.set_style(style.progress_chars("=> "));
                }
                bar.set_prefix(phase.to_string());
                bar.enable_steady_tick(std::time::Duration::from_millis(200));
                bars.push((phase, bar));
            }
            Event::Stepped { phase, what } => {
                let Some((_, bar)) = bars.iter().find(|(of, _)| *of == phase) else {
                    return;
                };
                bar.set_message(what);
                bar.inc(1);
                if bar.length().is_some_and(|length| bar.position() >= length) {
                    bar.finish_and_clear();
                    bars.retain(|(of, _)| *of != phase);
                }
            }
            Event::Waiting(line) => match bars.last() {
                Some((_, bar)) if !bar.is_hidden() => bar.println(line),
                _ => {
                    use std::io::Write;
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            },
            Event::Said(line) => match bars.last() {
                Some((_, bar)) => bar.println(line),
                None => {
                    use std::io::{IsTerminal, Write};
                    let mut stderr = std::io::stderr();
                    if stderr.is_terminal() {
                        let _ = writeln!(stderr, "{line}");
                    }
                }
            },
        }
    }

    /// Clears what an aborted phase left.
    pub fn clear(&self) {
        if let Ok(mut bars) = self.bars.lock() {
            bars.drain(..).for_each(|(_, bar)| bar.finish_and_clear());
        }
    }
}
