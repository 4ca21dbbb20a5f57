//! `programs:` of gates.yaml: builds and runs each program, of head and of the base, and makes cases of its launches.
//! From there on `pipeline` and the judge treat them like cases of kernels.

mod groups;
mod kept;
mod side;
mod tree;

use crate::captures::{self, Form, LaunchOrigin, LoadedLaunches};
use crate::injection::{MOST_BYTES, explain_nothing, find_library, inject};
use build::signature::whole_name;
use capture::{Capture, Reason, Request};
use config::{Loaded, Program, ProgramLimit};
use groups::{Group, LaunchPlace};
use model::{
    CaptureGap, CaseId, Fault, FaultKind, Filter, Gate, GroupTimes, OtherKernels, Plan, Reference,
    Rule, Subject, Uncaptured, Unsupported,
};
use pipeline::event::Event;
use pipeline::{BaseSide, Change};
use side::{Ended, ProgramSide};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};
use wording::reasons::is_of_xla;

/// The settings with which programs are run.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    pub form: Form,
    /// False if programs are confined like rivals; true if the user said that they can be trusted.
    pub trusted: bool,
    /// True if nothing is reused that earlier runs built.
    pub fresh: bool,
    pub cache: &'a Cache,
    pub on: &'a (dyn Fn(Event) + Sync),
}

/// Holds the captured memory of a run.
pub type Kept = Option<Box<dyn Any + Send + Sync>>;

/// Adds the launches of all programs to both sides of a change. What it returns has to be kept until they have run.
///
/// # Errors
/// Environment, if programs cannot be run at all. Usage, for a glob or a filter that fits nothing. A program that fails
/// is part of the change, and no error.
pub fn add(change: &mut Change, setting: &Setting) -> Result<Kept> {
    let Change { head, base, .. } = change;
    let of_base = base.as_ref().map_or(&[][..], |side| &side.programs);
    if head.programs.is_empty() && of_base.is_empty() {
        return Ok(None);
    }
    let mut kept = None;
    let mut ours = Launches::default();
    let mut is_base = false;
    if !head.programs.is_empty() {
        let make = |setting: &Setting| ProgramSide::head(&head.root, &head.programs, setting);
        let (side, launches) = run_side(&make, &head.programs, setting)?;
        let apart = base.as_ref().and_then(|base| base.file_isolation.as_ref());
        is_base = apart.is_some_and(|apart| side.has_tree(&apart.top));
        ours = launches;
        ours.check_globs(&head.programs)?;
        kept = Some(Box::new(side) as Box<dyn Any + Send + Sync>);
    }
    if let Some(base) = base {
        let mut theirs = add_to_base(base, head, &ours, is_base, setting)?;
        let groups = match setting.form {
            Form::Machine => find_groups(&head.programs, &ours, &theirs),
            // Nothing is timed in this form.
            Form::Ptx => Vec::new(),
        };
        let others = captures::share_inputs(&mut ours.plan, &mut theirs.plan);
        for id in others {
            theirs.plan.cases.retain(|case| case.id != id);
            theirs.plan.uncaptured.push(Uncaptured {
                declared: declared(&head.programs, &id.kernel),
                case: id,
                why: CaptureGap::OtherInputs,
            });
        }
        let programs = std::mem::take(&mut base.programs);
        theirs.note_other_kernels(&programs, &ours, &groups);
        add_groups(groups, &head.programs, &mut ours, &mut theirs);
        theirs.set_outputs_of_base(&programs);
        theirs.file(&programs, &mut base.spec.plan, &mut base.spec.gates);
    }
    head.all
        .extend(ours.plan.cases.iter().map(|case| case.id.clone()));
    ours.check_filters(head)?;
    ours.narrow(&mut head.plan);
    let programs = head.programs.clone();
    ours.set_outputs(&programs)?;
    ours.file(&programs, &mut head.plan, &mut head.gates);
    Ok(kept)
}

/// Returns the groups of all programs that ran on both sides.
fn find_groups(programs: &[Program], ours: &Launches, theirs: &Launches) -> Vec<Group> {
    programs
        .iter()
        .flat_map(|program| {
            let left_out = |side: &Launches| -> BTreeSet<String> {
                side.plan
                    .uncaptured
                    .iter()
                    .map(|gap| &gap.case)
                    .filter(|case| case.kernel == program.name)
                    .map(|case| case.variant.clone())
                    .collect()
            };
            let (ours_left_out, theirs_left_out) = (left_out(ours), left_out(theirs));
            let on_one_side = ours_left_out.symmetric_difference(&theirs_left_out);
            groups::find(program, ours, theirs, &on_one_side.cloned().collect())
        })
        .collect()
}

/// Replaces those launches of the base that head does not have by the groups.
fn add_groups(
    groups: Vec<Group>,
    programs: &[Program],
    ours: &mut Launches,
    theirs: &mut Launches,
) {
    let gone: BTreeSet<CaseId> = groups
        .iter()
        .filter(|group| group.sides.is_some())
        .flat_map(|group| &group.gone)
        .filter_map(|place| place.find(&theirs.plan).cloned())
        .collect();
    let Plan { units, cases, .. } = &mut theirs.plan;
    cases.retain(|case| !gone.contains(&case.id));
    units.retain(|unit| {
        let has_launch = cases.iter().any(|case| unit.is_of(&case.id));
        has_launch || !gone.iter().any(|id| unit.is_of(id))
    });
    for group in groups {
        theirs.plan.uncaptured.push(Uncaptured {
            declared: declared(programs, &group.id.kernel),
            case: group.id,
            why: CaptureGap::OtherKernels(group.kernels),
        });
        if let Some(((unit, case), (base_unit, base_case))) = group.sides {
            ours.plan.units.push(unit);
            ours.plan.cases.push(case);
            theirs.plan.units.push(base_unit);
            theirs.plan.cases.push(base_case);
        }
    }
}

/// Returns true if a limit of a program applies to this unit or case of the program.
fn is_limit_of(limit: &ProgramLimit, subject: &Subject, plan: &Plan) -> bool {
    let is_of_kernels = matches!(subject, Subject::Unit(_));
    limit.is_of_kernels() == is_of_kernels
        && (!plan.is_group(subject) || groups::holds_groups(limit))
}

fn declared(programs: &[Program], name: &str) -> String {
    let program = programs.iter().find(|program| program.name == name);
    program.map_or_else(String::new, |program| program.declared.clone())
}

/// Adds the launches of the base's programs, as far as head has the programs. A program that is gone is a loosened
/// gate.
///
/// `is_base` says that head's files are the base's, and so are the programs and what they launch.
fn add_to_base(
    base: &mut BaseSide,
    head: &Loaded,
    ours: &Launches,
    is_base: bool,
    setting: &Setting,
) -> Result<Launches> {
    let apart = base.file_isolation.as_ref().filter(|_| !is_base);
    let Some(apart) = apart else {
        // A change of compiler does not build programs, so the files are the same.
        base.programs.clone_from(&head.programs);
        return Ok(ours.clone());
    };
    let is_asked = |program: &Program| {
        let mut filters = head.plan.filters.iter();
        head.plan.filters.is_empty() || filters.any(|filter| filter.kernel.is_match(&program.name))
    };
    base.programs.retain(is_asked);
    // A program that broke at head is not compared with anything.
    let has_broken = |program: &Program| ours.plan.gap(&program.every_launch()).is_some();
    base.programs.retain(|program| !has_broken(program));
    let (both, gone): (Vec<_>, Vec<_>) = base
        .programs
        .iter()
        .cloned()
        .partition(|program| head.programs.iter().any(|ours| ours.name == program.name));
    for program in gone {
        base.spec.gates.push(Gate {
            subject: Subject::Case(program.every_launch()),
            rule: Rule::Built,
            declared: Some(program.declared),
        });
    }
    let mut theirs = Launches::default();
    if !both.is_empty() {
        let make = |setting: &Setting| ProgramSide::base(&base.root, apart, &both, setting);
        let (side, launches) = run_side(&make, &both, setting)?;
        theirs = launches;
        let tree = std::mem::replace(&mut base.files, Box::new(()));
        base.files = Box::new((tree, side));
    }
    Ok(theirs)
}

/// The programs of one side, as far as they ran.
#[derive(Clone)]
struct Launches {
    plan: Plan,
    /// The origins of the cases, in the order of the capture.
    origins: Vec<LaunchOrigin>,
    /// The names of all launched kernels for each program: mangled and readable.
    seen: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Limits on the errors of outputs that have a reference.
    limits: Vec<Gate>,
}

impl Default for Launches {
    fn default() -> Self {
        Self {
            plan: Plan::empty(config::default_timing()),
            origins: Vec::new(),
            seen: BTreeMap::new(),
            limits: Vec::new(),
        }
    }
}

impl Launches {
    fn add(&mut self, other: Self) {
        self.plan.units.extend(other.plan.units);
        self.plan.cases.extend(other.plan.cases);
        self.origins.extend(other.origins);
        self.plan.uncaptured.extend(other.plan.uncaptured);
        self.seen.extend(other.seen);
    }

    fn has_broken(&self) -> bool {
        let mut gaps = self.plan.uncaptured.iter();
        gaps.any(|gap| matches!(gap.why, CaptureGap::Broke(_)))
    }

    /// Notes that a program does not launch the same kernels on both sides, if a limit is on times. If XLA chose the
    /// kernels, each kernel that is gone fails even without this note.
    fn note_other_kernels(&mut self, programs: &[Program], head: &Self, groups: &[Group]) {
        for program in programs {
            let is_timed = program.limits.iter().any(|limit| !limit.is_of_kernels());
            let has_gap = self.plan.gap(&program.every_launch()).is_some();
            let has_none = !head
                .plan
                .cases
                .iter()
                .any(|case| case.id.kernel == program.name);
            let is_gone = head.plan.gap(&program.every_launch()).is_some() || has_none;
            if has_gap || is_gone {
                continue;
            }
            let own = groups
                .iter()
                .filter(|group| group.id.kernel == program.name);
            let places = |of: fn(&Group) -> &[LaunchPlace], plan: &Plan| -> BTreeSet<CaseId> {
                own.clone()
                    .flat_map(of)
                    .filter_map(|place| place.find(plan).cloned())
                    .collect()
            };
            let kernels = |plan: &Plan, grouped: BTreeSet<CaseId>| {
                let cases = plan.cases.iter().map(|case| &case.id);
                let gaps = plan.uncaptured.iter().map(|gap| &gap.case);
                let all = cases.chain(gaps).filter(|case| case.kernel == program.name);
                let all = all.filter(|case| !grouped.contains(case));
                all.map(|case| case.variant.clone())
                    .collect::<BTreeSet<_>>()
            };
            let ours = kernels(&head.plan, places(|group| &group.new, &head.plan));
            let theirs = kernels(&self.plan, places(|group| &group.gone, &self.plan));
            let mut gone = theirs.difference(&ours);
            let is_noted = is_timed || gone.any(|kernel| is_of_xla(kernel));
            if ours != theirs && is_noted {
                self.plan.uncaptured.push(Uncaptured {
                    case: program.every_launch(),
                    why: CaptureGap::OtherKernels(OtherKernels {
                        new: ours.difference(&theirs).cloned().collect(),
                        gone: theirs.difference(&ours).cloned().collect(),
                        times: GroupTimes::Alone,
                    }),
                    declared: program.declared.clone(),
                });
            }
        }
    }

    /// Checks that each glob fits a kernel. A glob that fits nothing is a mistake, unless the program broke.
    fn check_globs(&self, programs: &[Program]) -> Result<()> {
        for program in programs {
            let Some(seen) = self.seen.get(&program.name) else {
                continue;
            };
            let of_kernels = program.kernels.iter().map(|glob| (glob, &program.declared));
            let of_outputs = program
                .outputs
                .iter()
                .map(|output| (&output.kernels, &output.declared));
            for (glob, declared) in of_kernels.chain(of_outputs) {
                if !seen.iter().any(|names| fits(glob, names)) {
                    return Err(Error::usage(format!(
                        "`{glob}` fits no kernel that the program `{}` launches",
                        program.name
                    ))
                    .at(declared)
                    .help(
                        "`gatekeeper capture` lists all: gatekeeper capture -- python bench.py",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Applies what gates.yaml says about the outputs of launches: tolerances and references.
    fn set_outputs(&mut self, programs: &[Program]) -> Result<()> {
        for program in programs {
            let seen = self.seen.get(&program.name);
            let is_called = |glob: &str, symbol: &str| {
                let mut names = seen.into_iter().flatten();
                names.any(|names| names.0 == symbol && fits(glob, names))
            };
            let limits = captures::add_references(&mut self.plan, program, &is_called)?;
            self.limits.extend(limits);
            let Some(floats) = program.floats else {
                continue;
            };
            let cases = self.plan.cases.iter_mut();
            for case in cases.filter(|case| case.id.kernel == program.name) {
                if matches!(case.reference, Reference::Captured { .. }) {
                    captures::set_floats(case, floats, format!("output: {floats}"));
                }
            }
        }
        Ok(())
    }

    /// Sets the outputs of the base's launches. If the base's references do not fit its launches, nothing can be
    /// compared.
    fn set_outputs_of_base(&mut self, programs: &[Program]) {
        for program in programs {
            if let Err(error) = self.set_outputs(std::slice::from_ref(program)) {
                let fault = Fault::new(FaultKind::Program, error.to_string());
                self.plan.retain(|kernel| kernel != program.name);
                self.plan.uncaptured.push(Uncaptured {
                    case: program.every_launch(),
                    why: CaptureGap::Broke(fault),
                    declared: program.declared.clone(),
                });
            }
        }
    }

    /// Checks that each filter fits a launch. A filter that fits none is a mistake, unless it may fit a launch of a
    /// program that broke.
    fn check_filters(&self, head: &Loaded) -> Result<()> {
        let has_gap = |kernel: &dyn Fn(&str) -> bool| {
            self.plan
                .uncaptured
                .iter()
                .any(|gap| kernel(&gap.case.kernel))
        };
        for filter in &head.plan.filters {
            if !has_gap(&|kernel| filter.kernel.is_match(kernel)) {
                let text = filter.to_string();
                config::parse_filters(&head.all, &[text]).map_err(Error::Usage)?;
            }
        }
        Ok(())
    }

    /// Keeps the part of a plan that the filters select.
    fn narrow(&mut self, plan: &mut Plan) {
        let Plan {
            units,
            cases,
            uncaptured,
            ..
        } = &mut self.plan;
        // Filters name launches, but a gap may concern all launches of a kernel or program.
        let may_fit = |filter: &Filter, gap: &CaseId| {
            let mut variant = filter.variant.iter();
            let mut shape = filter.shape.iter();
            filter.kernel.is_match(&gap.kernel)
                && variant.all(|variant| gap.variant == "*" || variant.is_match(&gap.variant))
                && shape.all(|shape| gap.shape == "*" || shape.is_match(&gap.shape))
        };
        let filters = &plan.filters;
        uncaptured.retain(|gap| {
            filters.is_empty() || filters.iter().any(|filter| may_fit(filter, &gap.case))
        });
        let left_out: Vec<String> = cases
            .iter()
            .filter(|case| !plan.selects(&case.id))
            .map(|case| case.id.kernel.clone())
            .collect();
        cases.retain(|case| plan.selects(&case.id));
        let is_called = |kernel: &str, variant: &str| {
            cases.iter().any(|case| {
                (case.id.kernel.as_str(), case.id.variant.as_str()) == (kernel, variant)
            })
        };
        units.retain(|unit| is_called(&unit.id.kernel, &unit.id.variant));
        plan.left_out.extend(left_out);
    }

    /// Moves the launches to a plan, with their gates.
    fn file(mut self, programs: &[Program], plan: &mut Plan, gates: &mut Vec<Gate>) {
        for case in &mut self.plan.cases {
            case.timed = programs
                .iter()
                .filter(|program| program.name == case.id.kernel)
                .flat_map(|limit| &limit.limits)
                .any(|limit| !limit.is_of_kernels());
        }
        gates.extend(captures::gates(&self.plan));
        gates.extend(self.limits);
        for program in programs {
            for limit in &program.limits {
                let units = self
                    .plan
                    .units
                    .iter()
                    .map(|unit| Subject::Unit(unit.id.clone()));
                let cases = self
                    .plan
                    .cases
                    .iter()
                    .map(|case| Subject::Case(case.id.clone()));
                let own = units.chain(cases).filter(|unit| {
                    unit.kernel() == program.name && is_limit_of(limit, unit, &self.plan)
                });
                gates.extend(own.map(|subject| Gate {
                    subject,
                    rule: limit.rule.clone(),
                    declared: Some(limit.declared.clone()),
                }));
            }
        }
        plan.units.extend(self.plan.units);
        plan.cases.extend(self.plan.cases);
        plan.uncaptured.extend(self.plan.uncaptured);
    }
}

/// Returns true if a glob fits a kernel, by its mangled or its readable name.
fn fits(glob: &str, (symbol, readable): &(String, String)) -> bool {
    Request::fits(glob, symbol, readable)
}

fn request(program: &Program, out: &Path, kernels: Vec<String>) -> Request {
    Request {
        out: out.to_owned(),
        kernels,
        regions: program.regions.clone(),
        launches: program.launches,
        most_bytes: MOST_BYTES,
        random_inputs: false,
    }
}

/// Makes a side and runs its programs there. If they fail with a kept build, the kept build may be the reason, so
/// everything is built and run once more.
fn run_side(
    make: &dyn Fn(&Setting) -> Result<ProgramSide>,
    programs: &[Program],
    setting: &Setting,
) -> Result<(ProgramSide, Launches)> {
    let side = make(setting)?;
    let launches = run_all(programs, &side, setting)?;
    if !side.is_taken || !launches.has_broken() {
        return Ok((side, launches));
    }
    // The two sides would use the same directory, so the first one goes.
    drop(side);
    let fresh = Setting {
        fresh: true,
        ..*setting
    };
    run_side(make, programs, &fresh)
}

/// Builds all programs of a side, and then runs them. What was built is kept unless one of them fails.
fn run_all(programs: &[Program], side: &ProgramSide, setting: &Setting) -> Result<Launches> {
    let library = find_library()?;
    if side.is_taken {
        let text = format!("an earlier run built {side} programs (--fresh builds them again)");
        say(setting, &text);
    }
    let mut built: BTreeMap<&[String], Ended> = BTreeMap::new();
    for program in programs.iter().filter(|_| !side.is_taken) {
        let Some(words) = program.build.as_deref() else {
            continue;
        };
        say(
            setting,
            &format!("building {side} program {}", program.name),
        );
        if !built.contains_key(words) {
            built.insert(words, side.build(words, program.deadline_ms)?);
        }
    }
    let staged = if built.values().all(Ended::is_ok) {
        side.stage(!built.is_empty())
    } else {
        None
    };
    let mut launches = Launches::default();
    for program in programs {
        let built = program.build.as_deref().and_then(|words| built.get(words));
        launches.add(match built {
            Some(Err(said)) => broken(program, format!("its build {said}")),
            Some(Ok(_)) | None => capture_side(program, side, &library, setting)?,
        });
    }
    if let Some(staged) = staged.filter(|_| !launches.has_broken()) {
        side.keep(&staged);
    }
    Ok(launches)
}

fn broken(program: &Program, message: String) -> Launches {
    let mut launches = Launches::default();
    launches.plan.uncaptured.push(Uncaptured {
        case: program.every_launch(),
        why: CaptureGap::Broke(Fault::new(FaultKind::Program, message)),
        declared: program.declared.clone(),
    });
    launches
}

/// Words that follow a launch that can reach too much memory.
const ALLOCATION_OF_JAX: &str = "\nJAX takes most of the GPU's memory in one allocation: turn that off with `command: [env, \
     XLA_PYTHON_CLIENT_PREALLOCATE=false, python, ...]`";

/// Runs a program, and reads what it launched.
fn capture_side(
    program: &Program,
    side: &ProgramSide,
    library: &Path,
    setting: &Setting,
) -> Result<Launches> {
    let gap = |case: CaseId, why: CaptureGap| Uncaptured {
        case,
        why,
        declared: program.declared.clone(),
    };
    let broke = |message| broken(program, message);
    let name = &program.name;
    say(setting, &format!("capturing {side} program {name}"));
    let out = side.make_dir(&format!("capture-{name}"))?;
    let request = request(program, &out, program.kernels.clone());
    let mut command = side.command(&program.command)?;
    inject(&mut command, library, &request)?;
    if let Err(said) = side.run(command, program.deadline_ms)? {
        return Ok(broke(format!("its command {said}")));
    }
    let captured = Capture::read(&out).map_err(|damage| Error::environment(damage.to_string()))?;
    let mut launches = Launches::default();
    for left_out in captured.left_out() {
        let problem = left_out.reason.to_string();
        let why = CaptureGap::Unsupported(Unsupported::NotCaptured { problem });
        let case = CaseId::new(name, captures::name(&left_out.kernel), "*");
        let gap = gap(case, why);
        if !launches.plan.uncaptured.contains(&gap) {
            launches.plan.uncaptured.push(gap);
        }
    }
    if captured.launches().next().is_none() {
        let reasons = captured.left_out();
        let reasons = reasons
            .map(|reason| format!("\n{}: {}", captures::name(&reason.kernel), reason.reason));
        let reasons: BTreeSet<String> = reasons.collect();
        let mut left_out = captured.left_out();
        let is_whole_gpu = left_out.any(|case| matches!(case.reason, Reason::TooMuchMemory { .. }));
        return Ok(broke(if reasons.is_empty() {
            explain_nothing(&captured, &request)
                .diagnostic()
                .message
                .clone()
        } else {
            let hint = is_whole_gpu.then(|| ALLOCATION_OF_JAX.to_owned());
            reasons.into_iter().chain(hint).fold(
                "none of its launches could be captured:".to_owned(),
                |all, reason| all + &reason,
            )
        }));
    }
    let LoadedLaunches { loaded, origins } = captures::load_program(&out, setting.form, program)?;
    launches.plan.uncaptured.extend(loaded.plan.uncaptured);
    launches.plan.units = loaded.plan.units;
    launches.plan.cases = loaded.plan.cases;
    launches.origins = origins;
    let launched = captured.launches().map(|launch| launch.kernel.as_str());
    let left_out = captured.left_out().map(|case| case.kernel.as_str());
    let names = launched.chain(left_out);
    let names = names.flat_map(|symbol| {
        let readable = whole_name(symbol);
        // A template's name begins with the type that it returns.
        let with_type = format!("void {readable}");
        [readable, with_type].map(|readable| (symbol.to_owned(), readable))
    });
    launches.seen.insert(name.clone(), names.collect());
    Ok(launches)
}

fn say(setting: &Setting, text: &str) {
    (setting.on)(Event::Waiting(text.to_owned()));
}
