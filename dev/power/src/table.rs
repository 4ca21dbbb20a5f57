//! Renders an analysis as markdown: what was recorded, and the verdicts of the rule.

use std::fmt::Write;

use crate::analysis::Analysis;
use crate::draw::Cell;
use crate::prepared::How;
use crate::recording::Change;
use crate::share::Share;

impl Analysis {
    /// Renders tables of all figures. The same analysis gives the same bytes.
    pub fn markdown(&self) -> String {
        let sections = [self.head(), self.recorded(), self.rule(), self.replay()];
        sections.join("\n")
    }

    fn head(&self) -> String {
        let settings = &self.settings;
        format!(
            "{}, driver {}, recorded {}. The rule allows a slowdown of {} %, passes what is plainly \
             unchanged after {} processes, decides after {}, and gives a run of {} cases a chance of {} % of any \
             false alarm. In brackets: Clopper-Pearson bounds at {} %; they account for the number of draws, not for \
             the number of recorded processes.\n",
            self.device,
            self.driver,
            self.date,
            percent(settings.tolerance),
            list(&settings.quiet),
            list(&settings.looks),
            settings.cases,
            percent(settings.run_false_alarm),
            percent(settings.confidence),
        )
    }

    fn recorded(&self) -> String {
        let mut table = Table::new(&[
            "contest",
            "change",
            "processes",
            "head / base",
            "SD between processes",
            "farthest process",
            "correlation of neighbours",
            "GPU s per process",
            "GPU s per verdict, at most",
        ]);
        // One more confirms a failure at the last look.
        let most = self.settings.looks.last().map_or(0, |&looks| looks + 1);
        for contest in &self.contests {
            table.row(&[
                contest.title.clone(),
                intended(contest.change),
                contest.processes.to_string(),
                format!("{:.5}", contest.ratio),
                format!("{:.4} %", contest.ln_deviation * 100.0),
                format!("{:.1} SD", contest.farthest),
                format!("{:.2}", contest.correlation),
                format!("{:.3}", contest.seconds),
                format!("{:.2}", contest.seconds * f64::from(most)),
            ]);
        }
        table.titled("What was recorded")
    }

    fn rule(&self) -> String {
        let mut text = self
            .cells(&self.rule.cells)
            .titled("The rule, processes drawn at random");
        let runs = &self.rule.runs;
        let sentence = format!(
            "\nOf {} runs of {} unchanged cases, {} had a failing case and {} an inconclusive one.\n",
            runs.failed.of,
            self.settings.cases,
            self.bounded(runs.failed),
            self.bounded(runs.inconclusive),
        );
        text.push_str(&sentence);
        text
    }

    fn replay(&self) -> String {
        self.cells(&self.replayed)
            .titled("The rule, processes in the order of measurement, each used once")
    }

    fn cells(&self, cells: &[Cell]) -> Table {
        let mut table = Table::new(&[
            "contest",
            "change",
            "verdicts",
            "fail",
            "inconclusive",
            "processes",
            "GPU s",
            "longest, GPU s",
        ]);
        for cell in cells {
            let how = match cell.how {
                How::Unchanged => "none".to_owned(),
                How::OtherCode => format!("{:+.2} %, other code", cell.change * 100.0),
                How::Slowed => format!("{}, slowed", signed_percent(cell.change)),
                How::Scaled => format!("{}, scaled", signed_percent(cell.change)),
            };
            table.row(&[
                self.title(cell),
                how,
                cell.failed.of.to_string(),
                self.bounded(cell.failed),
                self.bounded(cell.inconclusive),
                format!("{:.1}", cell.processes),
                format!("{:.2}", cell.seconds),
                format!("{:.2}", cell.most_seconds),
            ]);
        }
        table
    }

    fn title(&self, cell: &Cell) -> String {
        let contest = self.contests.get(cell.contest);
        contest.map_or_else(String::new, |contest| contest.title.clone())
    }

    /// Returns a share with its bounds: `0 % [0, 0.012]`.
    pub fn bounded(&self, share: Share) -> String {
        let [lower, upper] = share.bounds(self.settings.confidence);
        format!("{} [{}, {}]", rate(share), short(lower), short(upper))
    }
}

fn intended(change: Change) -> String {
    match change {
        Change::None => "none".to_owned(),
        Change::OtherCode => "other code".to_owned(),
        Change::Slower(share) => signed_percent(share),
    }
}

/// Converts a share to percent, without the digits that its rounding leaves.
pub fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

pub fn signed_percent(share: f64) -> String {
    format!("{:+} %", percent(share))
}

pub fn rate(share: Share) -> String {
    if share.of == 0 {
        "-".to_owned()
    } else {
        format!("{} %", short(share.rate()))
    }
}

/// Returns percent with about three significant digits, and never rounds to all or nothing.
pub fn short(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent.min(100.0 - percent) {
        rest if rest <= 0.0 => 0,
        rest if rest < 0.01 => 4,
        rest if rest < 0.1 => 3,
        rest if rest < 1.0 => 2,
        _ => 1,
    };
    format!("{percent:.digits$}")
}

fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [few @ .., last] if !few.is_empty() => format!("{} or {last}", few.join(", ")),
        _ => words.concat(),
    }
}

/// The text of a table in markdown.
pub struct Table(String);

impl Table {
    pub fn new(header: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.line(header);
        table.line(&vec!["---"; header.len()]);
        table
    }

    pub fn row(&mut self, cells: &[String]) {
        self.line(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn line(&mut self, cells: &[&str]) {
        let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "| {} |", escaped.join(" | "));
    }

    pub fn titled(self, title: &str) -> String {
        format!("### {title}\n\n{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Counted, Runs};
    use crate::prepared::Spread;
    use crate::settings::Settings;

    fn cell(contest: usize, change: f64, how: How, failed: u64, inconclusive: u64) -> Cell {
        let of = 1000;
        Cell {
            contest,
            change,
            how,
            failed: Share { hits: failed, of },
            inconclusive: Share {
                hits: inconclusive,
                of,
            },
            processes: 6.25,
            seconds: 0.5,
            most_seconds: 0.75,
        }
    }

    #[test]
    fn all_tables() {
        let spread = |title: &str, change: Change, ratio: f64| Spread {
            title: title.into(),
            change,
            processes: 300,
            ratio,
            ln_deviation: 0.0007,
            farthest: 3.2,
            correlation: -0.02,
            seconds: 0.08,
        };
        let share = |hits| Share { hits, of: 400 };
        let analysis = Analysis {
            device: "NVIDIA H100 80GB HBM3".into(),
            driver: "580.159.04".into(),
            date: "2026-11-21".into(),
            settings: Settings::default(),
            contests: vec![
                spread("compute, 20 us", Change::None, 1.0),
                spread("compute, 20 us", Change::Slower(0.01), 1.0101),
                spread("compute, 20 us", Change::OtherCode, 1.0012),
            ],
            rule: Counted {
                runs: Runs {
                    failed: share(0),
                    inconclusive: share(3),
                },
                cells: vec![
                    cell(0, 0.0, How::Unchanged, 0, 1),
                    cell(0, 0.01, How::Scaled, 995, 5),
                    cell(1, 0.0101, How::Slowed, 999, 1),
                    cell(2, 0.0012, How::OtherCode, 1, 20),
                ],
            },
            replayed: vec![
                cell(0, 0.0, How::Unchanged, 0, 1),
                cell(1, 0.0101, How::Slowed, 1000, 0),
            ],
        };
        insta::assert_snapshot!(analysis.markdown());
    }

    #[test]
    fn never_rounds_a_share_up_to_all() {
        assert_eq!(short(1.0), "100");
        assert_eq!(short(0.0), "0");
        assert_eq!(short(0.99996), "99.9960");
        assert_eq!(short(0.000004), "0.0004");
        assert_eq!(short(0.5), "50.0");
        assert_eq!(rate(Share::default()), "-");
    }
}
