//! Writes numbers, gates and commands as people do. A change has both of its values beside it, or is put into words,
//! because a bare sign does not say whether it means head over base or base over head.

use model::*;

/// Returns a value of a metric with its unit: `361.2 us`, `48 KiB`, `12.5 %`.
pub fn quantity(metric: Metric, value: f64) -> String {
    match metric.measure() {
        Measure::Nanoseconds => nanoseconds(value),
        Measure::Bytes => bytes(value),
        Measure::Share if metric == Metric::RelL2 => number(value),
        Measure::Share => format!("{} %", number(value * 100.0)),
        Measure::Count | Measure::Output => number(value),
    }
}

/// Returns a number with four significant digits, or with fewer if the value has fewer.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor();
    if !(-4.0..15.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let digits = (3.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn nanoseconds(value: f64) -> String {
    let (scale, unit) = time_unit(value);
    format!("{} {unit}", number(value / scale))
}

/// Returns the unit for a time, and how many ns it has.
fn time_unit(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        below if below < 1e3 => (1.0, "ns"),
        below if below < 1e6 => (1e3, "us"),
        below if below < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// Returns one unit for values of a metric, of which `largest` is the largest, and the number to divide them by.
pub fn unit(metric: Metric, largest: f64) -> (f64, &'static str) {
    match metric.measure() {
        Measure::Nanoseconds => time_unit(largest),
        Measure::Bytes => (1.0, "B"),
        Measure::Count | Measure::Output | Measure::Share => (1.0, ""),
    }
}

/// Lays out values of one metric below each other: a head with their unit, and numbers without. The unit is that of the
/// median.
pub fn column(name: &str, metric: Metric, values: &[Option<f64>]) -> (String, Vec<String>) {
    let mut known: Vec<f64> = values.iter().flatten().copied().collect();
    known.retain(|number| number.is_finite() && *number != 0.0);
    known.sort_by(f64::total_cmp);
    let median = known.get(known.len() / 2).copied().unwrap_or(0.0);
    let (scale, unit) = match metric.measure() {
        Measure::Nanoseconds => time_unit(median),
        Measure::Bytes if median >= 1024.0 => (1024.0, "KiB"),
        Measure::Bytes => (1.0, "B"),
        Measure::Share if metric != Metric::RelL2 => (0.01, "%"),
        Measure::Share | Measure::Count | Measure::Output => (1.0, ""),
    };
    let cell = |value: &Option<f64>| value.map_or("-".to_owned(), |value| number(value / scale));
    let head = format!("{name} {unit}").trim_end().to_owned();
    (head, values.iter().map(cell).collect())
}

fn bytes(value: f64) -> String {
    if value >= 1024.0 && value % 256.0 == 0.0 {
        format!("{} KiB", value / 1024.0)
    } else {
        format!("{} B", number(value))
    }
}

/// Returns a size on a disk: `3.2 GiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Says what a relative change of a metric means: `3.0 % slower`, `12.5 % less`.
pub fn change(metric: Metric, change: f64) -> String {
    if change.is_nan() {
        return "not comparable (NaN)".to_owned();
    }
    if change == 0.0 {
        return "unchanged".to_owned();
    }
    let (more, less) = direction(metric);
    let word = if change > 0.0 { more } else { less };
    if change.is_infinite() {
        return format!("{word}, from 0");
    }
    format!("{} {word}", percent(change))
}

/// Returns the second of two values as a multiple of the first, `8× more` or `2.5× more`, if it is worse and at least
/// twice as large. Only counted values have one, because `8× slower` and `8× higher` can be read in two ways.
pub fn multiple(metric: Metric, was: f64, now: f64) -> Option<String> {
    let is_counted = matches!(metric.measure(), Measure::Count | Measure::Bytes);
    if !is_counted || metric.larger_is_better() || !was.is_finite() || was <= 0.0 {
        return None;
    }
    let times = now / was;
    if !times.is_finite() || times < 2.0 {
        return None;
    }
    // A value of 9.96 must not become `10.0`.
    let text = if times < 9.95 {
        format!("{times:.1}")
    } else {
        format!("{times:.0}")
    };
    let (more, _) = direction(metric);
    Some(format!("{}× {more}", text.trim_end_matches(".0")))
}

/// Returns an interval of a change: `2.6 % to 3.4 % slower`, `0.40 % faster to 1.2 % slower`.
pub fn interval(metric: Metric, [low, high]: [f64; 2]) -> String {
    if low * high > 0.0 {
        let (near, far) = if low > 0.0 { (low, high) } else { (high, low) };
        format!("{} to {}", percent(near), change(metric, far))
    } else {
        format!("{} to {}", change(metric, low), change(metric, high))
    }
}

/// Returns a share without a sign: `3.0 %`, `0.45 %`, `0.012 %`. Half a per cent is a limit, and one digit would not
/// distinguish it from a value that breaks it.
pub fn percent(share: f64) -> String {
    let size = share.abs() * 100.0;
    if size == 0.0 || size >= 1.0 {
        format!("{size:.1} %")
    } else if size >= 0.05 {
        format!("{size:.2} %")
    } else if size >= 0.0005 {
        format!("{size:.3} %")
    } else {
        "under 0.001 %".to_owned()
    }
}

/// Returns by which share a metric may be worse: `+2 %`, `-5 %`.
pub fn limit(metric: Metric, allowed: f64) -> String {
    format!("{}{} %", worse_sign(metric), number(allowed * 100.0))
}

/// Returns by how many a metric may be worse: `+3`, `-1`, `+16 B`.
pub fn limit_by(metric: Metric, amount: u64) -> String {
    format!("{}{}", worse_sign(metric), quantity(metric, amount as f64))
}

fn worse_sign(metric: Metric) -> char {
    if metric.larger_is_better() { '-' } else { '+' }
}

/// Returns a difference between two values: `+3`, `-16 B`.
pub fn difference(metric: Metric, by: f64) -> String {
    let sign = if by.is_sign_negative() { '-' } else { '+' };
    format!("{sign}{}", quantity(metric, by.abs()))
}

/// Returns the change from the first of two values to the second: `+3.0 %`, `-0.45 %`.
pub fn signed(change: f64) -> String {
    if change.is_nan() {
        return "NaN".to_owned();
    }
    if change.is_infinite() {
        return "from 0".to_owned();
    }
    match percent(change) {
        // The sign of so small a change is noise.
        tiny if tiny.starts_with("under") => tiny,
        size if change < 0.0 => format!("-{size}"),
        size => format!("+{size}"),
    }
}

/// Returns an interval with signs: `+2.6 % to +3.4 %`.
pub fn signed_interval([low, high]: [f64; 2]) -> String {
    format!("{} to {}", signed(low), signed(high))
}

/// Compares the times of one launch, the first with that of `other`: `1.4 times as fast as torch flash`, `0.7 times as
/// fast as torch flash`. Returns `None` if one of them is no time.
pub fn speed(ns: f64, other_ns: f64, other: &str) -> Option<String> {
    let is_time = |ns: f64| ns.is_finite() && ns > 0.0;
    if !is_time(ns) || !is_time(other_ns) {
        return None;
    }
    let times = match other_ns / ns {
        none if none < 0.01 => format!("{none:.1e}"),
        few if few < 10.0 => format!("{few:.2}"),
        some if some < 100.0 => format!("{some:.1}"),
        many => format!("{many:.0}"),
    };
    Some(match times.as_str() {
        "1.00" => format!("as fast as {other}"),
        times => format!("{times} times as fast as {other}"),
    })
}

/// Compares a count with that of `other`: `13.3 % more instructions than stage1`. Returns `None` if no share expresses
/// it.
pub fn amount(metric: Metric, value: f64, other_value: f64, other: &str) -> Option<String> {
    let share = value / other_value - 1.0;
    let word = match share {
        share if !share.is_finite() => return None,
        0.0 => return Some(format!("as many {metric} as {other}")),
        share if share > 0.0 => "more",
        _ => "fewer",
    };
    Some(format!("{} {word} {metric} than {other}", percent(share)))
}

/// Returns what a simulation costs, or may cost: `50 million warp instructions`.
pub fn instructions(count: u64) -> String {
    format!("{} warp instructions", millions(count))
}

/// Returns a large number in millions: `1.5 million`.
pub fn millions(count: u64) -> String {
    match count {
        few if few < 1_000_000 => few.to_string(),
        few if few < 10_000_000 => format!("{:.1} million", few as f64 / 1e6),
        many => format!("{} million", many / 1_000_000),
    }
}

/// Returns words as a list: `a`, `a and b`, `a, b and c`.
pub fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Returns a number with its noun: `1 process`, `3 processes`.
pub fn plural(count: usize, what: &str) -> String {
    let ending = match (count, what.ends_with(['s', 'h'])) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {what}{ending}")
}

fn direction(metric: Metric) -> (&'static str, &'static str) {
    match metric.measure() {
        Measure::Nanoseconds => ("slower", "faster"),
        Measure::Count | Measure::Bytes => ("more", "less"),
        Measure::Output | Measure::Share => ("higher", "lower"),
    }
}

/// Returns the place of an element: `out[0, 3, 17]`.
pub fn place(at: &Location) -> String {
    let index: Vec<_> = at.index.iter().map(usize::to_string).collect();
    format!("{}[{}]", at.tensor, index.join(", "))
}

/// Returns the worst element: `out[0, 3, 17] = 0.501, want 0.5`.
pub fn element(worst: &Worst) -> String {
    if let Some(reading) = &worst.reading {
        return read_element(&worst.at, reading);
    }
    // References are f32, and as such their numbers have fewer digits.
    let want = worst.want.0;
    let want = match want as f32 {
        single if f64::from(single) == want => single.to_string(),
        _ => want.to_string(),
    };
    format!("{} = {}, want {want}", place(&worst.at), worst.got)
}

/// A larger difference is not rounding, so its units are not counted, and no tolerance is suggested.
const MOST_ROUNDING: f64 = 0.01;

/// Returns an element of captured memory: `parameter 3, element 17 = 0.501, want 0.5 (f16; 2 units in the last place)`.
fn read_element(at: &Location, reading: &Reading) -> String {
    let Reading {
        elem, got, want, ..
    } = reading;
    let place = match reading.parameter {
        Some(number) => format!("parameter {number}"),
        None => at.tensor.clone(),
    };
    let apart = match reading.units {
        _ if reading.share.0 > MOST_ROUNDING => {
            format!("{} apart", quantity(Metric::OverTolerance, reading.share.0))
        }
        1 => "1 unit in the last place".to_owned(),
        units => format!("{units} units in the last place"),
    };
    format!(
        "{place}, element {} = {got}, want {want} ({elem}; {apart})",
        reading.index
    )
}

/// Says how to allow the difference of captured memory, if it may be rounding.
pub fn tolerance(reading: &Reading) -> String {
    let share = reading.share.0;
    if !(share > 0.0 && share <= MOST_ROUNDING) {
        return String::new();
    }
    let power = 10f64.powf(share.log10().floor());
    let digit = (share / power).ceil();
    let rounded = format!("{:e}", digit * power);
    // 9.000000000000001e-4 is written as 9e-4.
    let rounded = match rounded.split_once('e') {
        Some((_, exponent)) if digit < 10.0 => format!("{digit}e{exponent}"),
        _ => rounded,
    };
    let elem = reading.elem;
    format!(
        "; rounding of this size is allowed by `--tolerance {elem}:{rounded}`, in gates.yaml `output: {elem}:{rounded}`"
    )
}

/// Returns who computed on the GPU: `python3 (pid 4711), 2 that are not shown here`.
pub fn processes(all: &[OtherProcess]) -> String {
    let shown = |process: &&OtherProcess| process.pid.is_some() || process.name.is_some();
    let mut words: Vec<_> = all.iter().filter(shown).map(ToString::to_string).collect();
    match all.len() - words.len() {
        0 => {}
        1 => words.push("one that is not shown here".to_owned()),
        hidden => words.push(format!("{hidden} that are not shown here")),
    }
    words.join(", ")
}

/// Returns the command that runs a subject alone, from where the run was started and against the base that it named.
pub fn run_command(
    environment: &Environment,
    base: Option<&AgainstBase>,
    subject: &Subject,
) -> String {
    let is_simulated = environment.simulator.is_some() && environment.device.got().is_none();
    let device = if is_simulated { " --device sim" } else { "" };
    let base = base.map_or_else(String::new, |base| match &base.toolchain {
        Some(toolchain) => format!(" --base-toolchain {}", quoted(toolchain)),
        None => format!(" --base {}", quoted(&base.revision)),
    });
    let toolchain = environment.toolchain.as_ref();
    let toolchain = toolchain.map_or_else(String::new, |toolchain| {
        format!(" --toolchain {}", quoted(toolchain))
    });
    let run = format!("run{device}{base}{toolchain}");
    command(&run, environment, subject)
}

/// Returns the command that runs a captured launch alone.
pub fn replay_command(
    environment: &Environment,
    base: Option<&AgainstBase>,
    case: Option<&Case>,
    subject: &Subject,
) -> String {
    let base = base.map(|base| format!(" --base {}", quoted(&base.revision)));
    let tolerance = case.and_then(Case::float_tolerance);
    let tolerance = tolerance.map(|(elem, share)| format!(" --tolerance {elem}:{:e}", share.0));
    let is_simulated = environment.simulator.is_some() && environment.device.got().is_none();
    let device = if is_simulated { " --device sim" } else { "" };
    format!(
        "gatekeeper replay {}{}{}{device} {}",
        quoted(&environment.config),
        base.unwrap_or_default(),
        tolerance.unwrap_or_default(),
        quoted(&name_of(subject))
    )
}

/// Returns the command that makes what was measured of these subjects the new baseline.
pub fn update_command(environment: &Environment, subjects: &[&Subject]) -> String {
    format!(
        "gatekeeper baseline update{}{}",
        config(environment),
        filter(subjects)
    )
}

/// Returns the command that makes the compiled files of gates.yaml their new baselines.
pub fn update_binaries_command(environment: &Environment) -> String {
    format!("gatekeeper binary --update{}", config(environment))
}

/// Returns the same command for values that are worse than what was agreed.
pub fn accept_worse_command(environment: &Environment, subjects: &[&Subject]) -> String {
    format!(
        "gatekeeper baseline update --allow-worse{}{}",
        config(environment),
        filter(subjects)
    )
}

/// Returns the narrowest filter that selects all of these, as an argument: a case, a variant or a kernel. Returns an
/// empty text for several kernels.
fn filter(subjects: &[&Subject]) -> String {
    let Some((first, rest)) = subjects.split_first() else {
        return String::new();
    };
    let is_of = |same: &dyn Fn(&Subject) -> bool| rest.iter().all(|subject| same(subject));
    let (kernel, variant) = (first.kernel(), first.variant());
    let name = if rest.is_empty() {
        name_of(first)
    } else if is_of(&|other| (other.kernel(), other.variant()) == (kernel, variant)) {
        format!("{kernel}/{variant}")
    } else if is_of(&|other| other.kernel() == kernel) {
        kernel.to_owned()
    } else {
        return String::new();
    };
    format!(" '{name}'")
}

/// Returns the name that a filter has for a subject.
fn name_of(subject: &Subject) -> String {
    match subject {
        Subject::Unit(unit) => format!("{}/{}", unit.kernel, unit.variant),
        Subject::Case(case) => case.to_string(),
    }
}

fn command(what: &str, environment: &Environment, subject: &Subject) -> String {
    let subject = name_of(subject);
    format!("gatekeeper {what}{} '{subject}'", config(environment))
}

/// Returns the option ` --config 'path/gates.yaml'`, or nothing if a command uses this file by default.
pub fn config(environment: &Environment) -> String {
    if environment.config == DEFAULT_CONFIG {
        return String::new();
    }
    format!(" --config {}", quoted(&environment.config))
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns the properties that must be the same for values to judge a run.
pub fn key(key: &BaselineKey) -> String {
    let (mut parts, flags) = match key {
        BaselineKey::Resources {
            arch,
            compiler,
            flags,
        }
        | BaselineKey::Correctness {
            arch,
            compiler,
            flags,
        } => (vec![arch.to_string(), format!("nvcc {compiler}")], flags),
        BaselineKey::SimulatedCorrectness {
            arch,
            compiler,
            flags,
        } => (
            vec![
                "simulated".to_owned(),
                arch.to_string(),
                format!("nvcc {compiler}"),
            ],
            flags,
        ),
        BaselineKey::Counters {
            arch,
            compiler,
            flags,
            model,
        } => (
            vec![
                arch.to_string(),
                format!("nvcc {compiler}"),
                format!("model {model}"),
            ],
            flags,
        ),
        BaselineKey::Times {
            gpu,
            driver_branch,
            clock_policy,
            protocol,
            mode,
            compiler,
            flags,
        } => (
            vec![
                gpu.clone(),
                format!("driver {driver_branch}"),
                clock_policy.clone(),
                format!("{mode}, protocol {protocol}"),
                format!("nvcc {compiler}"),
            ],
            flags,
        ),
        BaselineKey::Profile {
            gpu,
            driver_branch,
            clock_policy,
            profiler,
            compiler,
            flags,
        } => (
            vec![
                gpu.clone(),
                format!("driver {driver_branch}"),
                clock_policy.clone(),
                profiler.clone(),
                format!("nvcc {compiler}"),
            ],
            flags,
        ),
    };
    if !flags.is_empty() {
        parts.push(flags.clone());
    }
    parts.join(", ")
}

/// Returns why a relative limit cannot be put on a metric.
pub fn no_relative(metric: Metric) -> String {
    format!("{metric} is mostly 0, and a change relative to 0 says nothing")
}

/// Returns the question of a verdict in a few words.
pub fn question(question: &Question) -> String {
    match question {
        Question::Gate(rule) => gate(rule),
        Question::Baseline => "baseline can be read".to_owned(),
        Question::Acceptance(allows) => format!("acceptance of {}", allowance(allows)),
        Question::NoLooser(what) => format!("no looser than the base: {}", demand(what)),
        Question::Failure(gates) => format!("expected to fail {}", any_of(gates)),
        Question::UngatedResources => "resources that no gate limits".to_owned(),
    }
}

/// Returns gates as alternatives: `memory and races or max_err`.
pub fn any_of(gates: &[GateName]) -> String {
    let names: Vec<_> = gates.iter().map(|gate| gate.name()).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Returns the failure that an acceptance lets pass, in a few words.
pub fn allowance(allows: &Allowance) -> String {
    match allows {
        Allowance::Limit(limit) => gate(limit),
        Allowance::Finding(KnownFinding { kind, file, line }) => {
            format!("{} in {file} at `{line}`", kind.name())
        }
    }
}

/// Returns the demand of a gate in a few words.
pub fn gate(rule: &Rule) -> String {
    match rule {
        Rule::Built => "built".to_owned(),
        Rule::HasEffect => "has effect".to_owned(),
        Rule::Finite => GateName::Finite.name().to_owned(),
        Rule::Written => GateName::Written.name().to_owned(),
        Rule::Deterministic => GateName::Deterministic.name().to_owned(),
        Rule::InputsIntact => GateName::InputsIntact.name().to_owned(),
        Rule::AgreesWithDriver => GateName::AgreesWithDriver.name().to_owned(),
        Rule::NoFindings => GateName::NoFindings.name().to_owned(),
        Rule::Counters { change } => format!("counters +{}%", number(change.0 * 100.0)),
        Rule::Limit { metric, limit } => format!("{metric} {}", bound(*metric, limit)),
        Rule::Condition { expr } => expr.text.clone(),
    }
}

/// Writes a limit that a value just holds, as gates.yaml has it: `occupancy: 75%`, `stack: 64`.
pub fn limit_in_yaml(metric: Metric, value: f64) -> String {
    let value = match metric {
        Metric::Occupancy => format!("{}%", (100.0 * value).floor()),
        _ => value.to_string(),
    };
    format!("{}: {value}", metric.name())
}

/// Returns the limit of a gate on a metric, without the metric's name: `<= 128`, `+2% of base`.
pub fn limit_of(question: &Question) -> Option<String> {
    match question {
        Question::Gate(Rule::Limit { metric, limit }) => Some(bound(*metric, limit)),
        _ => None,
    }
}

fn bound(metric: Metric, limit: &Limit) -> String {
    match limit {
        Limit::Absolute {
            op,
            bound: Bound::Value(bound),
        } => format!("{op} {}", quantity(metric, bound.0)),
        Limit::Absolute {
            op,
            bound: Bound::Expr(expr),
        } => format!("{op} {}", expr.text),
        Limit::Baseline { change } => margin(metric, *change),
        Limit::Anchor { anchor, change } => format!("{} of {anchor}", margin(metric, *change)),
        Limit::Base { change } => format!("+{}% of base", number(change.0 * 100.0)),
    }
}

/// Returns a margin as gates.yaml has it: `+2%`, `-2`.
fn margin(metric: Metric, margin: Margin) -> String {
    let sign = worse_sign(metric);
    match margin {
        Margin::Share(share) => format!("{sign}{}%", number(share.0 * 100.0)),
        Margin::Amount { amount } => format!("{sign}{amount}"),
    }
}

/// Returns a rename: `renamed: shape small of copy -> tiny`.
pub fn rename(rename: &Rename) -> String {
    let (item, kernel) = match &rename.item {
        RenamedItem::Kernel => ("kernel", None),
        RenamedItem::Variant { kernel } => ("variant", Some(kernel)),
        RenamedItem::Shape { kernel } => ("shape", Some(kernel)),
        RenamedItem::Tensor { kernel } => ("tensor", Some(kernel)),
        RenamedItem::Dimension { kernel } => ("dimension", Some(kernel)),
    };
    let of = kernel.map_or(String::new(), |kernel| format!(" of {kernel}"));
    format!("renamed: {item} {}{of} -> {}", rename.from, rename.to)
}

/// Returns the command that gives committed baselines a new name: `gatekeeper baseline rename k@tiny k@small`.
pub fn move_baselines(rename: &Rename) -> String {
    let named = |name: &str| match &rename.item {
        RenamedItem::Variant { kernel } => format!("{kernel}/{name}"),
        RenamedItem::Shape { kernel } => format!("{kernel}@{name}"),
        RenamedItem::Kernel | RenamedItem::Tensor { .. } | RenamedItem::Dimension { .. } => {
            name.to_owned()
        }
    };
    let (from, to) = (named(&rename.from), named(&rename.to));
    format!("gatekeeper baseline rename {from} {to}")
}

/// Returns the base's demand, in the words of a gate if it is one.
pub fn demand(demand: &BaseDemand) -> String {
    match demand {
        BaseDemand::Gate(rule) => gate(rule),
        BaseDemand::Seeds(seeds) => format!("seeds {}", numbers(seeds)),
        BaseDemand::BitExact => "deterministic to the bit".to_owned(),
        BaseDemand::Launches(launches) => {
            format!("{} of each seed", plural(*launches as usize, "launch"))
        }
        BaseDemand::Reference => "reference".to_owned(),
        BaseDemand::Dims(dims) => {
            format!(
                "shape {}",
                dims.iter()
                    .map(|(name, size)| format!("{name} = {size}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        BaseDemand::InputValues { tensor } => format!("values of input {tensor}"),
        BaseDemand::OutputType { tensor } => format!("type of output {tensor}"),
        BaseDemand::TensorRole { tensor, role } => format!("{tensor} is `{}`", role_name(*role)),
        BaseDemand::TensorDims { tensor, dims } => format!("{tensor} is {dims:?}"),
        BaseDemand::TensorOffset { tensor, offset } => {
            format!("{tensor} begins at element {offset} of its allocation")
        }
        BaseDemand::ComparedElements {
            tensor,
            compare: None,
        } => format!("all of output {tensor}"),
        BaseDemand::ComparedElements {
            tensor,
            compare: Some(compare),
        } => {
            format!("output {tensor} {}", compared_part(compare))
        }
        BaseDemand::UnpreparedScratch { tensor } => format!("scratch {tensor} without a fill"),
        BaseDemand::OwnWork => "work of the kernel".to_owned(),
        BaseDemand::SimulatorBudget => "simulator budget".to_owned(),
        BaseDemand::WarpHazards => "hazards within a warp fail".to_owned(),
        BaseDemand::TimingSchedule => "timing schedule".to_owned(),
        BaseDemand::Checks(rules) => comma(rules, gate),
        BaseDemand::Baseline(facet) => format!("baseline of {facet}"),
        BaseDemand::NoAcceptance => "without an acceptance".to_owned(),
        BaseDemand::File(file) => format!("gates of {file}"),
        BaseDemand::Launch => "compared with its launch".to_owned(),
        BaseDemand::NoFallback(None) => "no fallback".to_owned(),
        BaseDemand::NoFallback(Some(to)) => format!("no fallback but `{to}`"),
        BaseDemand::NoFailure(but) if but.is_empty() => "every gate holds".to_owned(),
        BaseDemand::NoFailure(but) => format!("no gate fails but {}", any_of(but)),
    }
}

/// Returns the elements that a comparison is about.
pub fn compared_part(compare: &Compare) -> String {
    match compare {
        Compare::Where { condition, .. } => format!("where `{}`", condition.text),
        Compare::Mask { tensor } => format!("where `{tensor}` is not 0"),
        Compare::Unordered { axis } => format!("in any order along axis {axis}"),
    }
}

/// Lists items in words that `each` gives, with a comma between them.
pub fn comma<T>(of: &[T], each: impl Fn(&T) -> String) -> String {
    let all: Vec<_> = of.iter().map(each).collect();
    all.join(", ")
}

pub fn numbers(numbers: &[u64]) -> String {
    let all: Vec<_> = numbers.iter().map(u64::to_string).collect();
    all.join(", ")
}

/// Returns a role as gates.yaml has it.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::In => "in",
        Role::Out => "out",
        Role::Inout => "inout",
        Role::Scratch => "scratch",
        Role::Reference => "reference",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_printed_with_their_units() {
        for (metric, value, text) in [
            (Metric::P50, 361_234.0, "361.2 us"),
            (Metric::P50, 512.0, "512 ns"),
            (Metric::P50, 12_345_678.0, "12.35 ms"),
            (Metric::Shared, 49_152.0, "48 KiB"),
            (Metric::Stack, 128.0, "128 B"),
            (Metric::Registers, 128.0, "128"),
            (Metric::Occupancy, 0.375, "37.5 %"),
            (Metric::Cv, 0.00123, "0.123 %"),
            (Metric::MaxErr, 0.001953125, "0.001953"),
            (Metric::MaxErr, 1.25e-7, "1.250e-7"),
            (Metric::MaxErr, f64::NAN, "NaN"),
            (Metric::RelL2, 0.003, "0.003"),
            (Metric::Spills, 0.0, "0 B"),
        ] {
            assert_eq!(quantity(metric, value), text);
        }
    }

    #[test]
    fn only_what_grew_is_a_multiple_and_nothing_is_one_of_zero() {
        let sectors = Metric::from(model::Counter::GlobalLoadSectors);
        for (metric, was, now, text) in [
            (sectors, 32_768.0, 262_144.0, Some("8× more")),
            (sectors, 500.0, 2_000.0, Some("4× more")),
            (sectors, 100.0, 200.0, Some("2× more")),
            (sectors, 100.0, 250.0, Some("2.5× more")),
            (sectors, 100.0, 995.0, Some("10× more")),
            (sectors, 1.0, 1000.0, Some("1000× more")),
            (Metric::Registers, 24.0, 96.0, Some("4× more")),
            (Metric::Shared, 1024.0, 49_152.0, Some("48× more")),
            // These are less, the same, and too little more.
            (sectors, 262_144.0, 32_768.0, None),
            (sectors, 100.0, 100.0, None),
            (sectors, 100.0, 199.0, None),
            (sectors, 0.0, 8.0, None),
            (sectors, 8.0, 0.0, None),
            (sectors, 0.0, 0.0, None),
            (sectors, -1.0, 8.0, None),
            (sectors, f64::NAN, 8.0, None),
            (sectors, 8.0, f64::NAN, None),
            (sectors, f64::INFINITY, f64::INFINITY, None),
            (sectors, 8.0, f64::INFINITY, None),
            // These are not counted, or are better the larger they are.
            (Metric::P50, 1.0, 8.0, None),
            (Metric::MaxErr, 1.0, 8.0, None),
            (Metric::Occupancy, 0.1, 0.8, None),
        ] {
            let said = multiple(metric, was, now);
            assert_eq!(said.as_deref(), text, "{metric}: {was} to {now}");
        }
    }

    #[test]
    fn slower_never_reads_as_an_improvement() {
        for (metric, share, text) in [
            (Metric::P50, 0.2, "20.0 % slower"),
            (Metric::P50, -0.2, "20.0 % faster"),
            (Metric::P99, 0.0, "unchanged"),
            (Metric::Registers, 1.0 / 128.0, "0.78 % more"),
            (Metric::Occupancy, -0.5, "50.0 % lower"),
            (Metric::MaxErr, f64::INFINITY, "higher, from 0"),
            (Metric::P50, 0.0001, "0.010 % slower"),
            (Metric::P50, 0.0045, "0.45 % slower"),
            (Metric::P50, -1e-7, "under 0.001 % faster"),
        ] {
            assert_eq!(change(metric, share), text);
        }
        assert_eq!(
            interval(Metric::P50, [0.026, 0.034]),
            "2.6 % to 3.4 % slower"
        );
        assert_eq!(
            interval(Metric::P50, [-0.034, -0.026]),
            "2.6 % to 3.4 % faster"
        );
        assert_eq!(
            interval(Metric::P50, [-0.004, 0.012]),
            "0.40 % faster to 1.2 % slower"
        );
    }

    #[test]
    fn how_fast_is_never_told_the_wrong_way_round() {
        for (ns, other, text) in [
            (100.0, 140.0, "1.40 times as fast as a"),
            (140.0, 98.0, "0.70 times as fast as a"),
            (100.0, 100.4, "as fast as a"),
            (9_600.0, 140_600.0, "14.6 times as fast as a"),
            (140_600.0, 9_600.0, "0.07 times as fast as a"),
            (1.0, 250.4, "250 times as fast as a"),
            (250.4, 1.0, "4.0e-3 times as fast as a"),
        ] {
            assert_eq!(speed(ns, other, "a").as_deref(), Some(text));
        }
        for none in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(speed(none, 1.0, "a"), None);
            assert_eq!(speed(1.0, none, "a"), None);
        }
    }

    #[test]
    fn compares_amounts_in_per_cent() {
        let metric = Metric::Counter(Counter::Instructions);
        for (value, other, text) in [
            (150.0, 100.0, Some("50.0 % more instructions than a")),
            (100.0, 150.0, Some("33.3 % fewer instructions than a")),
            (100.0, 100.0, Some("as many instructions as a")),
            (0.0, 100.0, Some("100.0 % fewer instructions than a")),
            (100.0, 0.0, None),
            (0.0, 0.0, None),
        ] {
            assert_eq!(amount(metric, value, other, "a").as_deref(), text);
        }
    }

    #[test]
    fn processes_are_named_and_hidden_ones_counted() {
        let process = |pid, name: Option<&str>| OtherProcess {
            pid,
            name: name.map(str::to_owned),
        };
        let (python, bare, hidden) = (
            process(Some(4711), Some("python3")),
            process(Some(12), None),
            process(None, None),
        );
        for (all, text) in [
            (vec![python.clone()], "python3 (pid 4711)"),
            (
                vec![python.clone(), bare.clone(), hidden.clone()],
                "python3 (pid 4711), pid 12, one that is not shown here",
            ),
            (vec![hidden.clone(); 3], "3 that are not shown here"),
            (vec![], ""),
        ] {
            assert_eq!(processes(&all), text);
        }
        let together = OtherProcess::together;
        assert_eq!(
            together(vec![python.clone(), bare.clone()], vec![bare.clone()]),
            [bare, python]
        );
        let several = |count| vec![hidden.clone(); count];
        assert_eq!(together(several(1), several(2)), several(2));
        assert_eq!(together(several(2), vec![]), several(2));
    }

    #[test]
    fn commands_name_a_gates_file_that_is_not_the_default() {
        use judge::fixture;
        let mut environment = fixture::environment();
        let case = fixture::case("fast", "small");
        assert_eq!(
            run_command(&environment, None, &case),
            "gatekeeper run 'k/fast@small'"
        );
        environment.config = "a b/it's.yaml".into();
        assert_eq!(
            run_command(&environment, None, &case),
            r"gatekeeper run --config 'a b/it'\''s.yaml' 'k/fast@small'"
        );
        assert_eq!(
            update_command(&environment, &[&fixture::unit("fast")]),
            r"gatekeeper baseline update --config 'a b/it'\''s.yaml' 'k/fast'"
        );
    }

    #[test]
    fn costs_as_people_say_them() {
        for (count, text) in [
            (999, "999"),
            (1_500_000, "1.5 million"),
            (50_000_000, "50 million"),
            (1_624_999_999, "1624 million"),
        ] {
            assert_eq!(instructions(count), format!("{text} warp instructions"));
        }
    }
}
