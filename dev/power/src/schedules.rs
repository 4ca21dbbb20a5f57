//! The figures behind the choice of looks and of the plain mean: the spread between processes that each
//! schedule of looks tolerates, and the rule under heavy tails. Prints markdown.

use calibration::{Dice, Process, Share};
use judge::stats::sequential::{Decision, Rule, Schedule, Undecidable};
use power::simulate::{Tail, World, chance};
use statrs::distribution::{ContinuousCDF, StudentsT};

const CONTESTS: u64 = 100_000;
const CASES: f64 = 60.0;
const TOLERANCE: f64 = 0.005;

#[derive(Clone, Copy, Default)]
struct Counts {
    red: Share,
    open: Share,
    processes: f64,
}

impl Counts {
    fn in_a_run(share: Share) -> f64 {
        1.0 - (1.0 - share.rate()).powf(CASES)
    }
}

/// Between processes, of ln ratio.
#[derive(Clone, Copy)]
struct Spread {
    deviation: f64,
    tail: Tail,
    /// Share of processes that are 1 % off, to either side.
    stray: f64,
}

fn normal(deviation: f64) -> Spread {
    Spread {
        deviation,
        tail: Tail::Normal,
        stray: 0.0,
    }
}

fn count(
    most: u32,
    spread: Spread,
    change: f64,
    decide: impl Fn(&[f64]) -> (Verdict, u32),
) -> Counts {
    let mut counts = Counts::default();
    let mut used = 0u64;
    for contest in 0..CONTESTS {
        let mut dice = Dice::new(20261121, contest);
        let ratios: Vec<f64> = (0..=most)
            .map(|_| {
                let ratio = change.ln_1p() + spread.deviation * spread.tail.draw(&mut dice);
                let stray = chance(&mut dice, spread.stray);
                let sign = if chance(&mut dice, 0.5) { 0.01 } else { -0.01 };
                if stray { ratio + sign } else { ratio }
            })
            .collect();
        let (verdict, processes) = decide(&ratios);
        counts.red.add(verdict == Verdict::Red);
        counts.open.add(verdict == Verdict::Open);
        used += u64::from(processes);
    }
    counts.processes = used as f64 / CONTESTS as f64;
    counts
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Red,
    Clear,
    Open,
}

fn rule(looks: &[u32]) -> Rule {
    Rule {
        tolerance: TOLERANCE,
        looks: looks.to_vec(),
        false_alarm: 0.01 / CASES,
        miss: 0.01,
        resolution: 1e-5,
    }
}

fn by_schedule(schedule: &Schedule, ratios: &[f64]) -> (Verdict, u32) {
    match schedule.decide(ratios) {
        Ok(Decision::Pass(evidence)) => (Verdict::Clear, evidence.processes_used()),
        Ok(Decision::Fail(evidence)) => (Verdict::Red, evidence.processes_used()),
        Ok(Decision::Open(evidence)) => (Verdict::Open, evidence.processes_used()),
        Ok(Decision::More(_) | Decision::Confirm(_)) | Err(_) => (Verdict::Open, 0),
    }
}

/// The same schedule over a mean without the `g` least and greatest, and the Winsorised deviation that
/// goes with it: Yuen's one-sample t ("The two-sample trimmed t for unequal population variances", 1974).
fn trimmed(looks: &[u32], share: f64) -> impl Fn(&[f64]) -> (Verdict, u32) + use<> {
    let rule = rule(looks);
    let split = looks.len() as f64;
    let looks: Vec<(usize, usize, f64, f64)> = looks
        .iter()
        .map(|&n| {
            let n = n as usize;
            let g = ((n as f64 * share) as usize).max(1);
            let kept = (n - 2 * g) as f64;
            let scale = ((n - 1) as f64 / (kept * (kept - 1.0))).sqrt();
            let t = |p: f64| {
                StudentsT::new(0.0, 1.0, kept - 1.0).map_or(f64::NAN, |t| -t.inverse_cdf(p))
            };
            (
                n,
                g,
                scale * t(rule.false_alarm / split),
                scale * t(rule.miss / split),
            )
        })
        .collect();
    let tolerance = TOLERANCE.ln_1p();
    move |ratios| {
        let mut used = 0;
        for &(n, g, down, up) in &looks {
            let mut sorted: Vec<f64> = ratios.iter().take(n).copied().collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let mean = sorted[g..n - g].iter().sum::<f64>() / (n - 2 * g) as f64;
            let winsorised: Vec<f64> = (0..n).map(|i| sorted[i.clamp(g, n - 1 - g)]).collect();
            let center = winsorised.iter().sum::<f64>() / n as f64;
            let squares: f64 = winsorised
                .iter()
                .map(|value| (value - center).powi(2))
                .sum();
            let deviation = (squares / (n - 1) as f64).sqrt().max(1e-5);
            used = n as u32;
            if mean - down * deviation > tolerance {
                used += 1;
                if ratios[n] > tolerance {
                    return (Verdict::Red, used);
                }
            } else if mean + up * deviation <= tolerance {
                return (Verdict::Clear, used);
            }
        }
        (Verdict::Open, used)
    }
}

/// The largest spread for which `holds`, in ln ratio.
fn largest(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 0.01);
    for _ in 0..9 {
        let middle = (low + high) / 2.0;
        if holds(middle) {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

fn schedules() -> Result<(), Undecidable> {
    println!(
        "| looks | passes: s up to | +1 % seen: s up to | processes, unchanged, s = 0.05 / 0.1 / 0.15 / 0.2 % | +1 % |"
    );
    println!("|---|---|---|---|---|");
    let all: [&[u32]; 14] = [
        &[6],
        &[8],
        &[10],
        &[16],
        &[5, 8, 13],
        &[6, 10, 16],
        &[8, 12, 16],
        &[6, 16],
        &[8, 16],
        &[4, 6, 10, 16],
        &[5, 7, 10, 16],
        &[6, 8, 12, 20],
        &[6, 10, 16, 24],
        &[6, 10, 20, 35],
    ];
    for looks in all {
        let schedule = rule(looks).schedule()?;
        let most = looks.last().copied().unwrap_or(0);
        let run = |spread: f64, change: f64| {
            count(most, normal(spread), change, |ratios| {
                by_schedule(&schedule, ratios)
            })
        };
        let passes = largest(|s| Counts::in_a_run(run(s, 0.0).open) <= 0.05);
        let seen = largest(|s| run(s, 0.01).red.rate() >= 0.99);
        let cost = |change: f64| {
            [0.0005, 0.001, 0.0015, 0.002]
                .map(|s| format!("{:.1}", run(s, change).processes))
                .join(" / ")
        };
        println!(
            "| {looks:?} | {} | {} | {} | {} |",
            percent(passes),
            percent(seen),
            cost(0.0),
            cost(0.01)
        );
    }
    Ok(())
}

fn tails() -> Result<(), Undecidable> {
    println!(
        "\n| processes | comparer | false red at the tolerance | runs of 60 red | runs open | +1 % seen | processes |"
    );
    println!("|---|---|---|---|---|---|---|");
    let worlds = [
        ("normal, s 0.10 %", normal(0.001)),
        ("normal, s 0.15 %", normal(0.0015)),
        (
            "t3, s 0.05 %",
            Spread {
                tail: Tail::Heavy,
                ..normal(0.0005)
            },
        ),
        (
            "t3, s 0.10 %",
            Spread {
                tail: Tail::Heavy,
                ..normal(0.001)
            },
        ),
        (
            "t3, s 0.15 %",
            Spread {
                tail: Tail::Heavy,
                ..normal(0.0015)
            },
        ),
        (
            "normal, s 0.05 %, 1 of 50 off by 1 %",
            Spread {
                stray: 0.02,
                ..normal(0.0005)
            },
        ),
        (
            "normal, s 0.05 %, 1 of 10 off by 1 %",
            Spread {
                stray: 0.1,
                ..normal(0.0005)
            },
        ),
    ];
    let looks: [&[u32]; 3] = [&[6, 10, 16], &[6, 10, 20, 35], &[8, 16, 32]];
    for (name, spread) in worlds {
        for looks in looks {
            let schedule = rule(looks).schedule()?;
            let most = looks.last().copied().unwrap_or(0);
            let row = |comparer: &str, decide: &dyn Fn(&[f64]) -> (Verdict, u32)| {
                let at = |change: f64| count(most, spread, change, decide);
                let (null, edge, one) = (at(0.0), at(TOLERANCE), at(0.01));
                println!(
                    "| {name} | {comparer} {looks:?} | {:.5} % | {} | {} | {} | {:.1} |",
                    edge.red.rate() * 100.0,
                    percent(Counts::in_a_run(null.red)),
                    percent(Counts::in_a_run(null.open)),
                    percent(one.red.rate()),
                    null.processes,
                );
            };
            row("t", &|ratios| by_schedule(&schedule, ratios));
            row("trimmed 10 %", &trimmed(looks, 0.1));
            row("trimmed 20 %", &trimmed(looks, 0.2));
        }
    }
    Ok(())
}

/// How to sum up the blocks of a process: the spread of its ln ratio by each statistic, in percent.
fn statistics() {
    println!(
        "\n| within a process | blocks | median of blocks | mean of blocks | mean of the middle half | ratio of medians |"
    );
    println!("|---|---|---|---|---|---|");
    let quiet = World {
        between: 0.0,
        ..World::quiet()
    };
    let worlds = [
        ("white noise 0.1 %", quiet.clone()),
        (
            "autocorrelated 0.2 %",
            World {
                wander: 0.002,
                ..quiet.clone()
            },
        ),
        (
            "drift 2 %",
            World {
                drift: 0.02,
                ..quiet.clone()
            },
        ),
        (
            "interrupts, 1 of 50 samples",
            World {
                interrupt: 0.02,
                ..quiet.clone()
            },
        ),
        (
            "slow mode, 30 % of samples, +0.6 %",
            World {
                slow: 0.3,
                slow_by: 0.006,
                ..quiet.clone()
            },
        ),
        (
            "slow mode, 30 % of samples, +2 %",
            World {
                slow: 0.3,
                slow_by: 0.02,
                ..quiet.clone()
            },
        ),
        (
            "slow mode, 50 % of samples, +2 %",
            World {
                slow: 0.5,
                slow_by: 0.02,
                ..quiet
            },
        ),
    ];
    for (name, world) in worlds {
        for blocks in [10, 20, 40] {
            let world = World {
                blocks,
                ..world.clone()
            };
            let mut found = [const { Vec::new() }; 4];
            for process in 0..4000 {
                let process = world.process(&mut Dice::new(7, process));
                let ratios = summed(&process);
                for (of, ratio) in found.iter_mut().zip(ratios) {
                    of.push(ratio);
                }
            }
            let cells = found.map(|ratios| {
                let n = ratios.len() as f64;
                let mean = ratios.iter().sum::<f64>() / n;
                let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
                format!("{:.3}", (squares / n).sqrt() * 100.0)
            });
            println!("| {name} | {blocks} | {} |", cells.join(" | "));
        }
    }
}

fn summed(process: &Process) -> [f64; 4] {
    let sum = |pair: [u64; 2]| pair.map(|ns| ns as f64).iter().sum::<f64>();
    let mut ratios: Vec<f64> = process
        .blocks
        .iter()
        .map(|block| (sum(block.ns.head) / sum(block.ns.base)).ln())
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let quarter = ratios.len() / 4;
    let middle = ratios
        .get(quarter..ratios.len() - quarter)
        .unwrap_or_default();
    let median_of = |pairs: Vec<[u64; 2]>| {
        let mut all: Vec<u64> = pairs.into_iter().flatten().collect();
        all.sort_unstable();
        all.get(all.len() / 2).map_or(f64::NAN, |&ns| ns as f64)
    };
    let head = median_of(process.blocks.iter().map(|block| block.ns.head).collect());
    let base = median_of(process.blocks.iter().map(|block| block.ns.base).collect());
    let median = process.ln_ratio().unwrap_or(f64::NAN);
    [median, mean(&ratios), mean(middle), (head / base).ln()]
}

pub fn print() -> Result<(), Undecidable> {
    statistics();
    schedules()?;
    tails()
}
