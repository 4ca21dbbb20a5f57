//! Progress on stderr: on a terminal a bar with the time left, in a log a line now and then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipeline::event::{Event, Phase};
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use wording::escape;

/// In a log, a phase that takes longer says how far it is, so often.
const SILENCE: Duration = Duration::from_secs(10);

/// One line at a time: phases overlap, and the latest one is what the run is waiting for.
pub struct Progress {
    running: Arc<Mutex<Vec<Running>>>,
    terminal: bool,
}

struct Running {
    phase: Phase,
    bar: ProgressBar,
    /// The last step.
    what: String,
    began: Instant,
    /// When a log last heard of it.
    said: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let running = Arc::new(Mutex::new(Vec::new()));
        if !terminal {
            let log = Arc::downgrade(&running);
            std::thread::spawn(move || keep_log(&log));
        }
        Self { running, terminal }
    }
}

impl Progress {
    pub fn on(&self, event: Event) {
        let mut running = held(&self.running);
        match event {
            Event::Began { phase, steps } => {
                if steps > 0 {
                    running.push(Running::new(phase, steps, self.terminal));
                }
            }
            Event::Stepped { phase, what } => {
                let Some(at) = running.iter().position(|it| it.phase == phase) else {
                    return;
                };
                let it = &mut running[at];
                let what = escape::lines(&what);
                it.bar.set_message(what.clone());
                it.bar.inc(1);
                it.what = what;
                if it
                    .bar
                    .length()
                    .is_some_and(|steps| it.bar.position() >= steps)
                {
                    it.bar.finish_and_clear();
                    if !self.terminal && it.began.elapsed() >= SILENCE {
                        write_line(&it.done());
                    }
                    running.remove(at);
                }
            }
            Event::Waiting(line) => match running.last() {
                Some(it) if self.terminal => it.bar.println(escape::lines(&line)),
                _ => write_line(&line),
            },
        }
    }

    /// Clears what an aborted phase left.
    pub fn clear(&self) {
        let mut running = held(&self.running);
        running.drain(..).for_each(|it| it.bar.finish_and_clear());
    }
}

impl Running {
    fn new(phase: Phase, steps: u64, terminal: bool) -> Self {
        let target = match terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix:>10} [{bar:24}] {pos}/{len} {eta:>4} left  {wide_msg}",
        ) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(phase.to_string());
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self {
            phase,
            bar,
            what: String::new(),
            began: Instant::now(),
            said: Instant::now(),
        }
    }

    /// `simulating: 12 of 237 done, 31 s so far; last sdpa_fp8/stage2@small`
    fn so_far(&self) -> String {
        let last = match self.what.as_str() {
            "" => String::new(),
            what => format!("; last {what}"),
        };
        format!(
            "{}: {} of {} done, {} s so far{last}",
            self.phase,
            self.bar.position(),
            self.bar.length().unwrap_or_default(),
            self.began.elapsed().as_secs(),
        )
    }

    /// `simulating: all 237 done in 58 s`
    fn done(&self) -> String {
        format!(
            "{}: all {} done in {} s",
            self.phase,
            self.bar.position(),
            self.began.elapsed().as_secs(),
        )
    }
}

/// Until the `Progress` is dropped.
fn keep_log(running: &Weak<Mutex<Vec<Running>>>) {
    while let Some(running) = running.upgrade() {
        if let Some(it) = held(&running).last_mut()
            && it.said.elapsed() >= SILENCE
        {
            it.said = Instant::now();
            write_line(&it.so_far());
        }
        drop(running);
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn write_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escape::lines(line));
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_hears_how_far_a_phase_is() {
        let mut it = Running::new(Phase::Simulate, 3, false);
        assert_eq!(it.so_far(), "simulating: 0 of 3 done, 0 s so far");
        it.bar.inc(1);
        it.what = "gemm/default@square".to_owned();
        assert_eq!(
            it.so_far(),
            "simulating: 1 of 3 done, 0 s so far; last gemm/default@square"
        );
        it.bar.inc(2);
        assert_eq!(it.done(), "simulating: all 3 done in 0 s");
    }

    #[test]
    fn a_phase_ends_with_its_last_step() {
        let progress = Progress {
            running: Arc::default(),
            terminal: false,
        };
        let phase = Phase::Build;
        progress.on(Event::Began { phase, steps: 2 });
        let stepped = || {
            let what = "unit".to_owned();
            progress.on(Event::Stepped { phase, what });
            held(&progress.running).len()
        };
        assert_eq!((stepped(), stepped(), stepped()), (1, 0, 0));
    }
}
