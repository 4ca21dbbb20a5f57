//! Prints progress to standard error: a bar with the time left on a terminal, a line from time to time in a log.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pipeline::event::{Event, Phase};
use report::terminal::Verbosity;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tracing::debug;
use tracing::level_filters::LevelFilter;
use wording::escape;

/// The time after which a phase that goes on says in a log how far it is.
const SILENCE: Duration = Duration::from_secs(10);

/// Shows one phase at a time. Phases overlap, and the run waits for the latest one.
pub struct Progress {
    running: Arc<Mutex<Vec<Running>>>,
    shown: Shown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Bars,
    /// A line from time to time, for logs.
    Lines,
    Nothing,
}

struct Running {
    phase: Phase,
    bar: ProgressBar,
    /// The name of the last step that was done.
    what: String,
    began: Instant,
    /// The time at which its last step was done.
    ended: Option<Instant>,
    /// The time of its latest line in a log.
    said: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new(Verbosity::Normal)
    }
}

impl Progress {
    pub fn new(verbosity: Verbosity) -> Self {
        let shown = match verbosity {
            Verbosity::Quiet => Shown::Nothing,
            Verbosity::Normal | Verbosity::Verbose => {
                // Bars would be drawn over the lines of a log.
                if std::io::stderr().is_terminal() && LevelFilter::current() == LevelFilter::OFF {
                    Shown::Bars
                } else {
                    Shown::Lines
                }
            }
        };
        let running = Arc::new(Mutex::new(Vec::new()));
        if shown == Shown::Lines {
            let log = Arc::downgrade(&running);
            std::thread::spawn(move || keep_log(&log));
        }
        Self { running, shown }
    }

    pub fn on(&self, event: Event) {
        debug!(?event);
        let mut running = held(&self.running);
        match event {
            Event::Began { phase, steps } => {
                self.end(&mut running, |progress| {
                    progress.phase != phase && progress.is_done()
                });
                match running.iter_mut().find(|progress| progress.phase == phase) {
                    Some(progress) if steps > 0 => {
                        progress.bar.inc_length(steps);
                        progress.ended = None;
                    }
                    Some(_) => {}
                    None if steps > 0 => running.push(Running::new(phase, steps, self.shown)),
                    None => {}
                }
            }
            Event::Stepped { phase, what } => {
                self.end(&mut running, |progress| {
                    progress.phase != phase && progress.is_done()
                });
                let Some(progress) = running.iter_mut().find(|progress| progress.phase == phase)
                else {
                    return;
                };
                let what = escape::lines(&what);
                progress.bar.set_message(what.clone());
                progress.bar.inc(1);
                progress.what = what;
                progress.ended = progress.is_done().then(Instant::now);
            }
            Event::Ended { phase } => self.end(&mut running, |progress| progress.phase == phase),
            Event::Waiting(line) => match running.last() {
                Some(progress) if self.shown == Shown::Bars => {
                    progress.bar.println(escape::lines(&line))
                }
                _ => write_line(&line),
            },
        }
    }

    /// Ends the phases for which `is_over` is true. A phase whose steps are done can go on: its bar stays until another
    /// phase replaces it.
    fn end(&self, running: &mut Vec<Running>, is_over: impl Fn(&Running) -> bool) {
        for progress in running.extract_if(.., |progress| is_over(progress)) {
            progress.bar.finish_and_clear();
            if self.shown == Shown::Lines && progress.is_done() && progress.took() >= SILENCE {
                write_line(&progress.done());
            }
        }
    }

    /// Clears the remaining bars, including those of aborted phases.
    pub fn clear(&self) {
        self.end(&mut held(&self.running), |_| true);
    }
}

impl Running {
    fn new(phase: Phase, steps: u64, shown: Shown) -> Self {
        let target = match shown {
            Shown::Bars => ProgressDrawTarget::stderr(),
            Shown::Lines | Shown::Nothing => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix:>10} [{bar:24}] {pos}/{len} {left:>9}  {wide_msg}",
        ) {
            bar.set_style(style.with_key("left", write_left).progress_chars("=> "));
        }
        bar.set_prefix(phase.to_string());
        if shown == Shown::Bars {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self {
            phase,
            bar,
            what: String::new(),
            began: Instant::now(),
            ended: None,
            said: Instant::now(),
        }
    }

    fn is_done(&self) -> bool {
        self.bar.position() >= self.bar.length().unwrap_or_default()
    }

    fn took(&self) -> Duration {
        self.ended.unwrap_or_else(Instant::now) - self.began
    }

    /// Returns a line such as `simulating: 12 of 237 done, 31 s so far; last sdpa_fp8/stage2@small`.
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

    /// Returns a line such as `simulating: all 237 done in 58 s`.
    fn done(&self) -> String {
        format!(
            "{}: all {} done in {} s",
            self.phase,
            self.bar.position(),
            self.took().as_secs(),
        )
    }
}

/// Returns the time left as text. It is empty before the first step, which gives no basis for an estimate, and in the
/// last second.
fn left(done: u64, left: Duration) -> String {
    if done > 0 && left >= Duration::from_secs(1) {
        format!("{:#} left", HumanDuration(left))
    } else {
        String::new()
    }
}

fn write_left(state: &ProgressState, out: &mut dyn fmt::Write) {
    // A bar that cannot be written does not fail the run.
    let _ = out.write_str(&left(state.pos(), state.eta()));
}

/// Prints lines to the log until the `Progress` is dropped.
fn keep_log(running: &Weak<Mutex<Vec<Running>>>) {
    while let Some(running) = running.upgrade() {
        if let Some(progress) = held(&running).last_mut()
            && !progress.is_done()
            && progress.said.elapsed() >= SILENCE
        {
            progress.said = Instant::now();
            write_line(&progress.so_far());
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
        let mut it = Running::new(Phase::Simulate, 3, Shown::Nothing);
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

    fn step(progress: &Progress, phase: Phase) {
        let what = "unit".to_owned();
        progress.on(Event::Stepped { phase, what });
    }

    /// Returns for each bar its phase, the steps done, and the steps in all.
    fn bars(progress: &Progress) -> Vec<(Phase, u64, u64)> {
        let running = held(&progress.running);
        running
            .iter()
            .map(|bar| (bar.phase, bar.bar.position(), bar.bar.length().unwrap()))
            .collect()
    }

    #[test]
    fn a_phase_in_rounds_is_one_bar() {
        let progress = Progress::new(Verbosity::Quiet);
        let phase = Phase::Time;
        progress.on(Event::Began { phase, steps: 2 });
        step(&progress, phase);
        step(&progress, phase);
        assert_eq!(bars(&progress), [(phase, 2, 2)]);
        progress.on(Event::Began { phase, steps: 2 });
        step(&progress, phase);
        assert_eq!(bars(&progress), [(phase, 3, 4)]);
        progress.on(Event::Ended { phase });
        assert_eq!(bars(&progress), []);
    }

    #[test]
    fn a_phase_whose_steps_are_done_makes_room_for_the_next() {
        let progress = Progress::new(Verbosity::Quiet);
        let (build, check) = (Phase::Build, Phase::Check);
        progress.on(Event::Began {
            phase: build,
            steps: 1,
        });
        step(&progress, build);
        progress.on(Event::Began {
            phase: check,
            steps: 2,
        });
        assert_eq!(bars(&progress), [(check, 0, 2)]);
        // Phases overlap, and a phase that is not done stays.
        progress.on(Event::Began {
            phase: build,
            steps: 1,
        });
        assert_eq!(bars(&progress), [(check, 0, 2), (build, 0, 1)]);
        progress.clear();
        assert_eq!(bars(&progress), []);
    }

    #[test]
    fn the_time_left_is_said_once_there_is_something_to_reckon_from() {
        let seconds = Duration::from_secs;
        assert_eq!(left(0, seconds(0)), "");
        assert_eq!(left(0, seconds(31)), "");
        assert_eq!(left(1, seconds(31)), "31s left");
        assert_eq!(left(1, Duration::from_millis(900)), "");
    }
}
