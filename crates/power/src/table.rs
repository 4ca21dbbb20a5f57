//! An analysis as markdown: what was recorded, what the rule does with it, and what others do.

use std::fmt::Write;

use crate::analysis::{Analysis, Cell, Comparer, How, Point};
use crate::prepared::{Pair, Processes, Samples};
use crate::recording::Change;
use crate::rivals::percent;
use crate::share::Share;

impl Analysis {
    /// Tables of all figures; the same bytes for the same analysis.
    pub fn markdown(&self) -> String {
        let sections = [
            self.head(),
            self.recorded(),
            self.rule(),
            self.replay(),
            self.by_kernel(),
            self.operating_points(
                "Receiver operating points, rivals on two processes as in practice",
                |comparer| !together(comparer),
            ),
            self.operating_points(
                "Receiver operating points, rivals on the paired samples of one of our processes",
                together,
            ),
        ];
        sections.join("\n")
    }

    fn head(&self) -> String {
        let settings = &self.settings;
        format!(
            "{}, driver {}, recorded {}. Tolerance {} %, looks at {} processes, {} % of false alarm in a run \
             of {} cases. In brackets: Clopper-Pearson bounds at {} %; they count the draws, not how few \
             processes there are to draw from.\n",
            self.device,
            self.driver,
            self.date,
            percent(settings.tolerance),
            list(&settings.looks),
            percent(settings.run_false_alarm),
            settings.cases,
            percent(settings.confidence),
        )
    }

    fn recorded(&self) -> String {
        let mut table = Table::new(&[
            "contest",
            "change",
            "processes",
            "head / base",
            "s between processes",
            "farthest",
            "correlation of neighbours",
            "GPU s a process",
            "GPU s of all a verdict may take",
        ]);
        // One more confirms a failure at the last look.
        let most = self.settings.looks.last().map_or(0, |&looks| looks + 1);
        for contest in &self.contests {
            table.row(&[
                contest.title.clone(),
                meant(contest.change),
                contest.processes.to_string(),
                format!("{:.5}", contest.ratio),
                format!("{:.4} %", contest.ln_deviation * 100.0),
                format!("{:.1} s", contest.farthest),
                format!("{:.2}", contest.correlation),
                format!("{:.3}", contest.seconds),
                format!("{:.2}", contest.seconds * f64::from(most)),
            ]);
        }
        table.titled("What was recorded")
    }

    fn rule(&self) -> String {
        let Some(point) = self.points.first() else {
            return String::new();
        };
        let mut text = self
            .cells(&point.cells)
            .titled("The rule on processes drawn at random");
        let runs = format!(
            "\nOf {} runs of {} unchanged cases {} had anything red, {} anything inconclusive.\n",
            point.runs.red.of,
            self.settings.cases,
            self.bounded(point.runs.red),
            self.bounded(point.runs.open),
        );
        text.push_str(&runs);
        text
    }

    fn replay(&self) -> String {
        self.cells(&self.replayed)
            .titled("The rule on processes in the order of measurement, each used once")
    }

    fn cells(&self, cells: &[Cell]) -> Table {
        let mut table = Table::new(&[
            "contest",
            "change",
            "verdicts",
            "red",
            "inconclusive",
            "processes",
            "GPU s",
            "most GPU s",
        ]);
        for cell in cells {
            let how = match cell.how {
                How::Unchanged => "none".to_owned(),
                How::OtherCode => format!("{:+.2} %, other code", cell.change * 100.0),
                How::Dial => format!("{}, dial", percented(cell.change)),
                How::Scaled => format!("{}, scaled", percented(cell.change)),
            };
            table.row(&[
                self.title(cell),
                how,
                cell.red.of.to_string(),
                self.bounded(cell.red),
                self.bounded(cell.open),
                format!("{:.1}", cell.processes),
                format!("{:.2}", cell.seconds),
                format!("{:.2}", cell.most_seconds),
            ]);
        }
        table
    }

    /// Each comparer at its own setting, which is the first of its points.
    fn by_kernel(&self) -> String {
        let unchanged: Vec<usize> = (0..self.contests.len())
            .filter(|&index| {
                self.contests
                    .get(index)
                    .is_some_and(|contest| contest.change == Change::None)
            })
            .collect();
        let mut header = vec!["comparer".to_owned(), "samples".to_owned()];
        header.extend(unchanged.iter().filter_map(|&index| {
            let contest = self.contests.get(index)?;
            Some(contest.title.clone())
        }));
        let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
        let mut seen: Vec<Comparer> = Vec::new();
        for point in &self.points {
            if seen.contains(&point.comparer) {
                continue;
            }
            seen.push(point.comparer);
            let mut row = vec![
                format!("{}, {}", name(point.comparer), point.setting),
                input(point.comparer).to_owned(),
            ];
            row.extend(unchanged.iter().map(|&index| self.kernel(point, index)));
            table.row(&row);
        }
        let changes: Vec<String> = self
            .settings
            .changes
            .iter()
            .map(|&share| percented(share))
            .collect();
        table.titled(&format!(
            "By kernel: false alarms / inconclusive where nothing changed; seen of {}",
            changes.join(", ")
        ))
    }

    fn kernel(&self, point: &Point, contest: usize) -> String {
        let of = |how: How| point.of(how).filter(move |cell| cell.contest == contest);
        let null: Vec<String> = of(How::Unchanged)
            .map(|cell| format!("{} / {}", rate(cell.red), rate(cell.open)))
            .collect();
        let seen: Vec<String> = of(How::Scaled).map(|cell| rate(cell.red)).collect();
        format!("{}; {}", null.join(""), seen.join(", "))
    }

    fn operating_points(&self, title: &str, shown: fn(Comparer) -> bool) -> String {
        let mut header = vec![
            "comparer".to_owned(),
            "setting".to_owned(),
            "samples".to_owned(),
            "false alarms".to_owned(),
            "runs red".to_owned(),
            "runs inconclusive".to_owned(),
        ];
        for &share in &self.settings.changes {
            header.push(format!("{} seen", percented(share)));
        }
        header.extend(["processes".to_owned(), "GPU s".to_owned()]);
        let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
        for point in self.points.iter().filter(|point| shown(point.comparer)) {
            let mut row = vec![
                name(point.comparer).to_owned(),
                point.setting.clone(),
                input(point.comparer).to_owned(),
                self.bounded(point.false_alarms()),
                self.bounded(point.runs.red),
                rate(point.runs.open),
            ];
            for &share in &self.settings.changes {
                row.push(range(point.at_change(share).map(|cell| cell.red)));
            }
            let mean = |of: fn(&Cell) -> f64| {
                let (sum, n) = point
                    .of(How::Unchanged)
                    .fold((0.0, 0.0), |(sum, n), cell| (sum + of(cell), n + 1.0));
                sum / n
            };
            row.push(format!("{:.1}", mean(|cell| cell.processes)));
            row.push(format!("{:.2}", mean(|cell| cell.seconds)));
            table.row(&row);
        }
        table.titled(&format!("{title} (seen: least to most over the contests)"))
    }

    fn title(&self, cell: &Cell) -> String {
        let contest = self.contests.get(cell.contest);
        contest.map_or_else(String::new, |contest| contest.title.clone())
    }

    fn bounded(&self, share: Share) -> String {
        let [lower, upper] = share.bounds(self.settings.confidence);
        format!("{} [{}, {}]", rate(share), short(lower), short(upper))
    }
}

fn together(comparer: Comparer) -> bool {
    matches!(comparer, Comparer::Rival { pair, .. } if pair.processes == Processes::Together)
}

fn name(comparer: Comparer) -> &'static str {
    match comparer {
        Comparer::Gatekeeper => "gatekeeper",
        Comparer::Rival { name, .. } => name,
    }
}

fn input(comparer: Comparer) -> &'static str {
    let Comparer::Rival { pair, .. } = comparer else {
        return "paired blocks";
    };
    let Pair { processes, samples } = pair;
    match (processes, samples) {
        (Processes::Apart, Samples::Single) => "two processes, one launch a sample",
        (Processes::Apart, Samples::Batched) => "two processes, batched",
        (Processes::Together, Samples::Single) => "one process, one launch a sample",
        (Processes::Together, Samples::Batched) => "one process, batched",
    }
}

fn meant(change: Change) -> String {
    match change {
        Change::None => "none".to_owned(),
        Change::OtherCode => "other code".to_owned(),
        Change::Slower(share) => percented(share),
    }
}

fn percented(share: f64) -> String {
    format!("{:+} %", percent(share))
}

fn rate(share: Share) -> String {
    if share.of == 0 {
        "-".to_owned()
    } else {
        format!("{} %", short(share.rate()))
    }
}

/// Percent with three digits that say something, and never rounded to all or nothing.
fn short(share: f64) -> String {
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

/// From the least to the greatest rate.
fn range(shares: impl Iterator<Item = Share>) -> String {
    let mut shares: Vec<Share> = shares.filter(|share| share.of > 0).collect();
    shares.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    match shares.as_slice() {
        [] => "-".to_owned(),
        [least, .., most] if least.rate() == most.rate() => rate(*least),
        [only] => rate(*only),
        [least, .., most] => format!("{} - {}", short(least.rate()), rate(*most)),
    }
}

fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    words.join(", ")
}

struct Table(String);

impl Table {
    fn new(header: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.line(header);
        table.line(&vec!["---"; header.len()]);
        table
    }

    fn row(&mut self, cells: &[String]) {
        self.line(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn line(&mut self, cells: &[&str]) {
        let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "| {} |", escaped.join(" | "));
    }

    fn titled(self, title: &str) -> String {
        format!("### {title}\n\n{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Runs, Settings, Spread};

    fn cell(contest: usize, change: f64, how: How, red: u64, open: u64) -> Cell {
        let of = 1000;
        Cell {
            contest,
            change,
            how,
            red: Share { hits: red, of },
            open: Share { hits: open, of },
            processes: 6.25,
            seconds: 0.5,
            most_seconds: 0.75,
        }
    }

    fn point(comparer: Comparer, setting: &str, alarms: u64) -> Point {
        Point {
            comparer,
            setting: setting.into(),
            runs: Runs {
                red: Share {
                    hits: alarms,
                    of: 400,
                },
                open: Share { hits: 3, of: 400 },
            },
            cells: vec![
                cell(0, 0.0, How::Unchanged, alarms, 1),
                cell(0, 0.01, How::Scaled, 995, 5),
                cell(1, 0.0, How::Unchanged, 0, 0),
                cell(1, 0.01, How::Scaled, 1000, 0),
                cell(2, 0.0101, How::Dial, 999, 1),
                cell(3, 0.0012, How::OtherCode, 1, 20),
            ],
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
        let rival = |pair| Comparer::Rival {
            name: "p50 beyond",
            pair,
        };
        let analysis = Analysis {
            device: "NVIDIA H100 80GB HBM3".into(),
            driver: "580.159.04".into(),
            date: "2026-11-21".into(),
            settings: Settings {
                changes: vec![0.01],
                ..Settings::default()
            },
            contests: vec![
                spread("spin, 20 us, compute", Change::None, 1.0),
                spread("copy, 60 us, memory", Change::None, 1.0),
                spread("spin, 20 us, compute", Change::Slower(0.01), 1.0101),
                spread("spin, 20 us, compute", Change::OtherCode, 1.0012),
            ],
            points: vec![
                point(Comparer::Gatekeeper, "tolerance 0.5 %, 1 % a run", 0),
                point(Comparer::Gatekeeper, "tolerance 0.5 %, 5 % a run", 1),
                point(rival(Pair::ALL[0]), "2 %", 150),
                point(rival(Pair::ALL[3]), "2 %", 15),
                point(rival(Pair::ALL[3]), "5 %", 7),
            ],
            replayed: vec![
                cell(0, 0.0, How::Unchanged, 0, 1),
                cell(2, 0.0101, How::Dial, 1000, 0),
            ],
        };
        insta::assert_snapshot!(analysis.markdown());
    }

    #[test]
    fn what_is_not_all_is_never_printed_as_all() {
        assert_eq!(short(1.0), "100");
        assert_eq!(short(0.0), "0");
        assert_eq!(short(0.99996), "99.9960");
        assert_eq!(short(0.000004), "0.0004");
        assert_eq!(short(0.5), "50.0");
        assert_eq!(rate(Share::default()), "-");
    }
}
