//! A comparison as markdown: the tables of the rule, then all comparers side by side.

use crate::comparison::{Comparer, Comparison, Point};
use crate::halves::{Pair, Processes, Samples};
use crate::table::{Table, rate, short, signed_percent};
use crate::{Cell, Change, How, Share};

impl Comparison {
    /// Begins with [`crate::Analysis::markdown`]; the same bytes for the same comparison.
    pub fn markdown(&self) -> String {
        let sections = [
            self.analysis.markdown(),
            self.by_kernel(),
            self.operating_points(
                "Receiver operating points, other comparers on two processes as in practice",
                |comparer| !together(comparer),
            ),
            self.operating_points(
                "Receiver operating points, other comparers on the paired samples of one of our processes",
                together,
            ),
        ];
        sections.join("\n")
    }

    /// Each comparer at its own setting, which is the first of its points.
    fn by_kernel(&self) -> String {
        let unchanged: Vec<usize> = (0..self.analysis.contests.len())
            .filter(|&index| {
                self.analysis
                    .contests
                    .get(index)
                    .is_some_and(|contest| contest.change == Change::None)
            })
            .collect();
        let mut header = vec!["comparer".to_owned(), "samples".to_owned()];
        header.extend(unchanged.iter().filter_map(|&index| {
            let contest = self.analysis.contests.get(index)?;
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
            .analysis
            .settings
            .changes
            .iter()
            .map(|&share| signed_percent(share))
            .collect();
        table.titled(&format!(
            "By kernel: false alarms / inconclusive when unchanged; detected at {}",
            changes.join(", ")
        ))
    }

    fn kernel(&self, point: &Point, contest: usize) -> String {
        let of = |how: How| {
            point
                .counted
                .of(how)
                .filter(move |cell| cell.contest == contest)
        };
        let null: Vec<String> = of(How::Unchanged)
            .map(|cell| format!("{} / {}", rate(cell.failed), rate(cell.inconclusive)))
            .collect();
        let seen: Vec<String> = of(How::Scaled).map(|cell| rate(cell.failed)).collect();
        format!("{}; {}", null.join(""), seen.join(", "))
    }

    fn operating_points(&self, title: &str, shown: fn(Comparer) -> bool) -> String {
        let mut header = vec![
            "comparer".to_owned(),
            "setting".to_owned(),
            "samples".to_owned(),
            "false alarms".to_owned(),
            "runs with a false alarm".to_owned(),
            "runs inconclusive".to_owned(),
        ];
        for &share in &self.analysis.settings.changes {
            header.push(format!("{} detected", signed_percent(share)));
        }
        header.extend(["processes".to_owned(), "GPU s".to_owned()]);
        let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
        for point in self.points.iter().filter(|point| shown(point.comparer)) {
            let mut row = vec![
                name(point.comparer).to_owned(),
                point.setting.clone(),
                input(point.comparer).to_owned(),
                self.analysis.bounded(point.counted.false_alarms()),
                self.analysis.bounded(point.counted.runs.failed),
                rate(point.counted.runs.inconclusive),
            ];
            for &share in &self.analysis.settings.changes {
                row.push(range(
                    point.counted.at_change(share).map(|cell| cell.failed),
                ));
            }
            let mean = |of: fn(&Cell) -> f64| {
                let (sum, n) = point
                    .counted
                    .of(How::Unchanged)
                    .fold((0.0, 0.0), |(sum, n), cell| (sum + of(cell), n + 1.0));
                sum / n
            };
            row.push(format!("{:.1}", mean(|cell| cell.processes)));
            row.push(format!("{:.2}", mean(|cell| cell.seconds)));
            table.row(&row);
        }
        table.titled(&format!(
            "{title} (detected: from the worst to the best contest)"
        ))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Analysis, Counted, Runs, Settings, Spread};

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

    fn point(comparer: Comparer, setting: &str, alarms: u64) -> Point {
        Point {
            comparer,
            setting: setting.into(),
            counted: Counted {
                runs: Runs {
                    failed: Share {
                        hits: alarms,
                        of: 400,
                    },
                    inconclusive: Share { hits: 3, of: 400 },
                },
                cells: vec![
                    cell(0, 0.0, How::Unchanged, alarms, 1),
                    cell(0, 0.01, How::Scaled, 995, 5),
                    cell(1, 0.0, How::Unchanged, 0, 0),
                    cell(1, 0.01, How::Scaled, 1000, 0),
                    cell(2, 0.0101, How::Slowed, 999, 1),
                    cell(3, 0.0012, How::OtherCode, 1, 20),
                ],
            },
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
        let points = vec![
            point(Comparer::Gatekeeper, "tolerance 0.5 %, 1 % a run", 0),
            point(Comparer::Gatekeeper, "tolerance 0.5 %, 5 % a run", 1),
            point(rival(Pair::ALL[0]), "2 %", 150),
            point(rival(Pair::ALL[3]), "2 %", 15),
            point(rival(Pair::ALL[3]), "5 %", 7),
        ];
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
            rule: point(Comparer::Gatekeeper, "", 0).counted,
            replayed: vec![
                cell(0, 0.0, How::Unchanged, 0, 1),
                cell(2, 0.0101, How::Slowed, 1000, 0),
            ],
        };
        insta::assert_snapshot!(Comparison { analysis, points }.markdown());
    }
}
