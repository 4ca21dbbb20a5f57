//! Makes cases of captured launches. The module is the source, the memory of the program is the inputs, and the memory
//! after the launch is the expected output. `pipeline` and the judge treat them like cases of gates.yaml.

mod floats;
mod outputs;
mod pairing;

pub use floats::{compare_as_floats, set as set_floats};
pub use outputs::add_references;
pub use pairing::{Pairs, find_pairs};

use build::signature::{Pointee, parameters, qualified};
use build::toolchain::Choice;
use capture::{Allocation, Capture, Content, Contents, EncodedMap, LaunchRecord, Line, PlacedMap};
use config::{Loaded, Places, Program};
use model::{
    Arch, Arg, Base, Bound, Callable, CaptureGap, CapturedContent, Case, CaseId, Constant,
    ElemType, Fill, Gate, Launch, Limit, Metric, Num, Op, Plan, Pointer, REPLAYED, Reference, Role,
    Rule, Step, Subject, Tensor, Uncaptured, Unit, UnitId, Unsupported,
};
use pipeline::{BaseSide, FileIsolation};
use run::device::DeviceChoice;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use system::cache::write_atomically;
use system::error::{Error, Result};

/// The share by which a launch may be slower than the base's.
const MOST_SLOWER: f64 = 0.01;

/// The deadline of a captured launch in milliseconds, which is the default of a case of gates.yaml.
const DEADLINE_MS: u64 = (config::DEADLINE_NS / 1e6) as u64;

/// The seeds of a case. Its data is the program's, so one seed is enough.
const SEEDS: [u64; 1] = [1];

/// The form of a kernel's code that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Machine code, as the program ran it, or PTX if the module has nothing else.
    Machine,
    /// PTX, which the simulator can run.
    Ptx,
}

impl Form {
    pub fn new(device: DeviceChoice) -> Self {
        match device {
            DeviceChoice::Sim => Self::Ptx,
            DeviceChoice::Auto | DeviceChoice::Cuda { .. } | DeviceChoice::CudaAll => Self::Machine,
        }
    }
}

/// Makes cases of all launches of a capture. The code of each kernel is written next to it, under `modules`. Launches
/// that cannot run in this form are gaps of the plan.
///
/// # Errors
/// Returns an error for a capture that cannot be read or is damaged, and for a capture without launches that can run.
pub fn load(dir: &Path, form: Form) -> Result<Loaded> {
    let loaded = load_all(dir, form, None)?.loaded;
    if loaded.all.is_empty() {
        return Err(Error::usage("it has no launches")
            .at(dir.display())
            .help("capture some: gatekeeper capture --out DIR -- python bench.py"));
    }
    check_that_some_run(&loaded.plan)?;
    Ok(loaded)
}

fn check_that_some_run(plan: &Plan) -> Result<()> {
    if !plan.cases.is_empty() {
        return Ok(());
    }
    let message = "none of its launches can run here:".to_owned();
    let gaps = list_gaps(plan).map(|(case, problem)| format!("\n{case}: {problem}"));
    Err(Error::environment(gaps.fold(message, |all, gap| all + &gap))
        .help("replay on a GPU; for the simulator, build the program with PTX: -gencode arch=compute_90,code=[sm_90,compute_90]"))
}

/// Returns the launches that cannot run in this form, each with the reason.
pub fn list_gaps(plan: &Plan) -> impl Iterator<Item = (&CaseId, &str)> {
    plan.uncaptured.iter().filter_map(|gap| match &gap.why {
        CaptureGap::Unsupported(Unsupported::NotCaptured { problem }) => {
            Some((&gap.case, problem.as_str()))
        }
        _ => None,
    })
}

/// Loads the capture of a program of gates.yaml, whose cases are called `PROGRAM/KERNEL@launch1`. Sources have their
/// whole paths, as they are not below gates.yaml.
///
/// # Errors
/// A capture that cannot be read or is damaged.
pub fn load_program(dir: &Path, form: Form, program: &Program) -> Result<LoadedLaunches> {
    load_all(dir, form, Some(program))
}

/// The launches of a capture as cases.
pub struct LoadedLaunches {
    pub loaded: Loaded,
    /// The launch behind each case, in the order of the cases.
    pub origins: Vec<LaunchOrigin>,
}

/// The place in a program from which a case was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOrigin {
    pub pid: u32,
    pub region: Option<String>,
    /// The number of launches of the kernel in this region and process: those that are cases, and all of them. The
    /// latter is not known if the process did not end by itself.
    pub captured: u64,
    pub launched: Option<u64>,
}

/// Returns each launch of a process of a capture.
fn find_origins(lines: &[Line], pid: u32) -> Vec<(&LaunchRecord, LaunchOrigin)> {
    let mut launches = Vec::new();
    let mut counts: BTreeMap<_, (u64, Option<u64>)> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Launch(launch) => {
                counts
                    .entry((&launch.kernel, &launch.region))
                    .or_default()
                    .0 += 1;
                launches.push(launch.as_ref());
            }
            Line::Launched(launched) => {
                counts
                    .entry((&launched.kernel, &launched.region))
                    .or_default()
                    .1 = Some(launched.launches);
            }
            Line::Process(_) | Line::LeftOut(_) => {}
        }
    }
    launches
        .into_iter()
        .map(|launch| {
            let counted = counts.get(&(&launch.kernel, &launch.region));
            let (captured, launched) = counted.copied().unwrap_or_default();
            let region = launch.region.clone();
            let origin = LaunchOrigin {
                pid,
                region,
                captured,
                launched,
            };
            (launch, origin)
        })
        .collect()
}

fn load_all(dir: &Path, form: Form, program: Option<&Program>) -> Result<LoadedLaunches> {
    let root = std::path::absolute(dir).map_err(|error| Error::at_path(dir, error))?;
    let damaged =
        |damage: capture::Damage| Error::environment(damage.to_string()).caused_by(damage);
    let capture = Capture::read(&root).map_err(damaged)?;
    let mut maker = Maker {
        form,
        contents: Contents::new(&root),
        root,
        names: ShortNames::default(),
        program: program.map(|program| program.name.clone()),
        declared: program.map_or_else(
            || dir.display().to_string(),
            |program| program.declared.clone(),
        ),
        codes: HashMap::new(),
        units: Vec::new(),
        cases: Vec::new(),
        gaps: Vec::new(),
    };
    let mut origins = Vec::new();
    let processes = capture.processes.iter();
    for (launch, origin) in processes.flat_map(|(process, lines)| find_origins(lines, process.pid))
    {
        if maker.add(launch)? {
            origins.push(origin);
        }
    }
    Ok(LoadedLaunches {
        loaded: maker.finish(dir),
        origins,
    })
}

/// Keeps the cases that filters name.
///
/// # Errors
/// Usage, for a filter that fits none. Environment, if none of the remaining cases can run.
pub fn select(loaded: &mut Loaded, filters: &[String]) -> Result<()> {
    let filters = config::parse_filters(&loaded.all, filters).map_err(Error::Usage)?;
    if filters.is_empty() {
        return Ok(());
    }
    let is_kept = |id: &CaseId| filters.iter().any(|filter| filter.fits(id));
    let plan = &mut loaded.plan;
    plan.cases.retain(|case| is_kept(&case.id));
    plan.uncaptured.retain(|gap| is_kept(&gap.case));
    check_that_some_run(plan)?;
    let kept: BTreeSet<String> = plan
        .cases
        .iter()
        .map(|case| case.id.kernel.clone())
        .collect();
    plan.units.retain(|unit| kept.contains(&unit.id.kernel));
    loaded.gates.retain(|gate| match &gate.subject {
        Subject::Case(id) => is_kept(id),
        Subject::Unit(id) => kept.contains(&id.kernel),
    });
    plan.filters = filters;
    Ok(())
}

/// A capture as the base of another one.
pub struct AgainstBase {
    pub side: BaseSide,
    /// Launches that both sides have, on different memory. Neither output nor time can be compared.
    pub other_inputs: Vec<CaseId>,
}

/// Compares head's launches with the base's: with their outputs on the same inputs, and with their times.
///
/// # Errors
/// Usage, if no launch can be compared.
pub fn compare(head: &mut Loaded, mut base: Loaded, form: Form) -> Result<AgainstBase> {
    if head.root == base.root {
        return Err(Error::usage("it is its own base")
            .at(&head.places.file)
            .help("name the directory of an older capture"));
    }
    let other_inputs = share_inputs(&mut head.plan, &mut base.plan);
    let is_compared = |case: &Case| !other_inputs.contains(&case.id);
    for side in [&mut *head, &mut base] {
        side.plan.cases.retain(is_compared);
        let called: BTreeSet<&String> =
            side.plan.cases.iter().map(|case| &case.id.kernel).collect();
        side.plan
            .units
            .retain(|unit| called.contains(&unit.id.kernel));
        let mut gates = gates(&side.plan);
        if form == Form::Machine {
            gates.extend(side.plan.cases.iter().map(|case| Gate {
                subject: Subject::Case(case.id.clone()),
                rule: Rule::Limit {
                    metric: Metric::P50,
                    limit: Limit::Base {
                        change: Num(MOST_SLOWER),
                    },
                },
                declared: None,
            }));
        }
        side.gates = gates;
    }
    if !head
        .plan
        .cases
        .iter()
        .any(|case| base.plan.case(&case.id).is_some())
    {
        return Err(Error::usage("no launch is in both captures with the same inputs")
            .help("capture the same program twice, with fixed seeds: gatekeeper capture --out old -- ..."));
    }
    Ok(AgainstBase {
        side: BaseSide {
            spec: Base::new(&base.places.file, "", base.plan, base.gates),
            binaries: Vec::new(),
            programs: Vec::new(),
            compiler: Choice::pin(None),
            file_isolation: Some(FileIsolation {
                top: base.root.clone(),
                head_top: head.root.clone(),
                head_files: Vec::new(),
            }),
            root: base.root,
            files: Box::new(()),
        },
        other_inputs,
    })
}

/// Returns the short name of a unit's kernel.
fn called(id: &UnitId) -> &str {
    match id.variant.as_str() {
        REPLAYED => &id.kernel,
        variant => variant,
    }
}

fn with_name(id: &UnitId, name: &str) -> UnitId {
    let mut named = id.clone();
    *(match id.variant.as_str() {
        REPLAYED => &mut named.kernel,
        _ => &mut named.variant,
    }) = name.to_owned();
    named
}

/// Gives the base's launches the names of head's, and lets both sides run on the base's memory: the output of each
/// launch that both have is compared with what the base's launch left. Returns the launches for which that is
/// impossible.
pub fn share_inputs(head: &mut Plan, base: &mut Plan) -> Vec<CaseId> {
    pairing::use_ids_of_head(head, base);
    let mut other_inputs = Vec::new();
    for ours in &mut head.cases {
        let Some(theirs) = base.cases.iter_mut().find(|case| case.id == ours.id) else {
            continue;
        };
        if can_share_inputs(ours, theirs) {
            share_outputs(ours, theirs)
        } else {
            other_inputs.push(ours.id.clone())
        }
    }
    other_inputs
}

/// Returns true if head's launch can run on the base's memory: it has the same allocations in the same places, and
/// their contents or the launch's parameters are the same.
///
/// Parameters may differ otherwise, because programs leave the padding of structs as it is, and a value that matters
/// shows in the output. Contents may differ otherwise, because an earlier launch wrote them. Variables of a module may
/// not differ.
fn can_share_inputs(ours: &Case, theirs: &Case) -> bool {
    let content = |tensor: &Tensor| match &tensor.fill {
        Some(Fill::Captured { content }) => Some((content.bytes, content.chunks.clone())),
        _ => None,
    };
    let is_same = |(ours, theirs): (&Tensor, &Tensor)| content(ours) == content(theirs);
    let place = |tensor: &Tensor| (tensor.name.clone(), tensor.address, tensor.dims.clone());
    let places = |case: &Case| case.tensors.iter().map(place).collect::<Vec<_>>();
    let args = |case: &Case| {
        case.steps
            .iter()
            .map(|step| step.args.clone())
            .collect::<Vec<_>>()
    };
    let mut both = ours.tensors.iter().zip(&theirs.tensors);
    let (mut of_variables, mut of_memory) = (true, true);
    for pair in both.by_ref() {
        match pair.0.address {
            Some(_) => of_memory &= is_same(pair),
            None => of_variables &= is_same(pair),
        }
    }
    places(ours) == places(theirs) && of_variables && (of_memory || args(ours) == args(theirs))
}

/// Requires that everything which either launch changed is as the base's launch left it.
fn share_outputs(ours: &mut Case, theirs: &mut Case) {
    let mut expected = BTreeMap::new();
    let outputs = |case: &Case| match &case.reference {
        Reference::Captured { outputs } => outputs.clone(),
        _ => BTreeMap::new(),
    };
    let (own, base) = (outputs(ours), outputs(theirs));
    for tensor in &mut theirs.tensors {
        let Some(Fill::Captured { content: before }) = &tensor.fill else {
            continue;
        };
        let after = match (base.get(&tensor.name), own.get(&tensor.name)) {
            (Some(after), _) => after,
            // Only head's launch changes it.
            (None, Some(_)) => before,
            (None, None) => continue,
        };
        expected.insert(tensor.name.clone(), after.clone());
        tensor.role = Role::Inout;
    }
    ours.tensors.clone_from(&theirs.tensors);
    if !expected.is_empty() {
        let reference = Reference::Captured { outputs: expected };
        ours.reference = reference.clone();
        theirs.reference = reference;
    }
}

struct Maker {
    form: Form,
    root: PathBuf,
    contents: Contents,
    names: ShortNames,
    /// The program of gates.yaml that launched the kernels.
    program: Option<String>,
    /// The place where launches that cannot run are declared, such as `gates.yaml:42`, or the capture.
    declared: String,
    codes: HashMap<Key, CapturedKernel>,
    units: Vec<Unit>,
    cases: Vec<Case>,
    gaps: Vec<Uncaptured>,
}

/// The properties that all launches of one unit have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    module: Vec<String>,
    kernel: String,
    /// The variables of the module that differ from what loading makes of them.
    variables: Vec<String>,
}

/// Returns the parameters of a launch that lead into an allocation, with the types that the kernel's name has for them.
/// A struct by value may have several pointers of unknown types.
fn find_pointers(launch: &LaunchRecord, allocation: &Allocation) -> Vec<Pointer> {
    let types = parameters(&launch.kernel).unwrap_or_default();
    let ends = allocation.address.saturating_add(allocation.before.bytes);
    launch
        .parameters
        .iter()
        .zip(1..)
        .zip(types.iter().map(Some).chain(std::iter::repeat(None)))
        .flat_map(|((parameter, number), declared)| {
            let elem = declared.and_then(|declared| match Pointee::from_parameter(declared)? {
                Pointee::Float(elem) => Some(elem),
                Pointee::Whole(_) => Some(ElemType::I32),
            });
            parameter
                .addresses()
                .filter(|address| (allocation.address..ends).contains(address))
                .map(move |address| Pointer {
                    parameter: number,
                    offset: address - allocation.address,
                    elem,
                })
        })
        .collect()
}

/// A kernel's machine code or PTX.
struct CapturedKernel {
    name: String,
    /// The number of its launches so far.
    launches: u32,
    /// The file that holds it, relative to the capture, or why no launch of it can run in this form.
    file: std::result::Result<(String, Arch), String>,
    /// True if a launch of it can run.
    is_unit: bool,
}

impl Maker {
    /// Adds a launch. Returns false if it cannot run in this form.
    fn add(&mut self, launch: &LaunchRecord) -> Result<bool> {
        let variables = launch.variables.iter();
        let key = Key {
            module: hashes(&launch.module),
            kernel: launch.kernel.clone(),
            variables: variables.map(|variable| variable.name.clone()).collect(),
        };
        let mut code = match self.codes.remove(&key) {
            Some(code) => code,
            None => CapturedKernel {
                name: self.names.name(&launch.kernel),
                launches: 0,
                file: self.find_code(launch)?,
                is_unit: false,
            },
        };
        code.launches += 1;
        let shape = format!("launch{}", code.launches);
        let (kernel, variant) = match &self.program {
            Some(program) => (program.as_str(), code.name.as_str()),
            None => (code.name.as_str(), REPLAYED),
        };
        let id = CaseId::new(kernel, variant, shape);
        let mut is_case = false;
        match (&code.file, self.translate(launch)?) {
            (Ok((source, arch)), Ok(launch)) => {
                let launch = launch.as_ref();
                if !code.is_unit {
                    let source = match self.program {
                        Some(_) => self.root.join(source).display().to_string(),
                        None => source.clone(),
                    };
                    let unit = make_unit(id.unit(*arch), &source, launch);
                    self.units.push(unit);
                    code.is_unit = true;
                }
                let case = self.make_case(id, launch);
                self.cases.push(case);
                is_case = true;
            }
            (Err(problem), _) => self.add_gap(id, problem.clone()),
            (_, Err(problem)) => self.add_gap(id, problem),
        }
        self.codes.insert(key, code);
        Ok(is_case)
    }

    fn add_gap(&mut self, case: CaseId, problem: String) {
        self.gaps.push(Uncaptured {
            case,
            why: CaptureGap::Unsupported(Unsupported::NotCaptured { problem }),
            declared: self.declared.clone(),
        });
    }

    /// Returns the launch in the form that runs: the simulator's tensor maps take the place of the driver's, which only
    /// a GPU can read. Otherwise returns why the simulator has no such map.
    fn translate<'a>(
        &mut self,
        launch: &'a LaunchRecord,
    ) -> Result<std::result::Result<Cow<'a, LaunchRecord>, String>> {
        let parameters = launch.parameters.iter().map(|parameter| &parameter.maps);
        let allocations = launch
            .allocations
            .iter()
            .flat_map(|allocation| [&allocation.maps, &allocation.maps_after]);
        let variables = launch.variables.iter().map(|variable| &variable.maps);
        let mut all = parameters.chain(allocations).chain(variables);
        if self.form == Form::Machine || all.all(Vec::is_empty) {
            return Ok(Ok(Cow::Borrowed(launch)));
        }
        let translated = self.translate_all(launch.clone());
        match translated {
            Ok(launch) => Ok(Ok(Cow::Owned(launch))),
            Err(Untranslated::Lacking(problem)) => Ok(Err(problem)),
            Err(Untranslated::Error(error)) => Err(error),
        }
    }

    fn translate_all(
        &mut self,
        mut launch: LaunchRecord,
    ) -> std::result::Result<LaunchRecord, Untranslated> {
        for parameter in &mut launch.parameters {
            let mut bytes = parameter.bytes.clone().into_bytes();
            for (at, encoded) in encode_all(&parameter.maps)? {
                let digits: String = encoded.iter().map(|byte| format!("{byte:02x}")).collect();
                // A byte has two digits.
                put(&mut bytes, at.saturating_mul(2), digits.as_bytes())?;
            }
            parameter.bytes = String::from_utf8(bytes).map_err(|_| misplaced())?;
        }
        for allocation in &mut launch.allocations {
            allocation.before = self.translate_content(&allocation.before, &allocation.maps)?;
            if let Some(after) = &mut allocation.after {
                *after = self.translate_content(after, &allocation.maps_after)?;
            }
        }
        for variable in &mut launch.variables {
            variable.before = self.translate_content(&variable.before, &variable.maps)?;
        }
        Ok(launch)
    }

    fn translate_content(
        &mut self,
        content: &Content,
        maps: &[PlacedMap],
    ) -> std::result::Result<Content, Untranslated> {
        if maps.is_empty() {
            return Ok(content.clone());
        }
        let maps = encode_all(maps)?;
        let bytes = self.contents.get(content);
        let mut bytes = bytes.map_err(|damage| Error::environment(damage.to_string()))?;
        for (at, encoded) in maps {
            put(&mut bytes, at, &encoded)?;
        }
        let stored = self.contents.put(&bytes);
        Ok(stored.map_err(|error| Error::at_path(&self.root, error))?)
    }

    /// Takes the kernel out of its module, for the device that it was captured on, if the module has it for that.
    fn find_code(
        &self,
        launch: &LaunchRecord,
    ) -> Result<std::result::Result<(String, Arch), String>> {
        let broken = |error: &dyn std::fmt::Display| {
            Error::environment(format!("the module of {}: {error}", launch.kernel))
        };
        let module = self.contents.get(&launch.module);
        let module = module.map_err(|damage| broken(&damage))?;
        let [major, minor] = launch.capability;
        let digest = blake3::hash(&module).to_hex();
        let code = match self.form {
            Form::Machine => self.find_machine_code(&module, launch)?,
            Form::Ptx => None,
        };
        if let Some((arch, bytes)) = code {
            let source = format!("modules/{}-{arch}.cubin", &digest[..16]);
            self.write(&source, &bytes)?;
            return Ok(Ok((source, arch)));
        }
        let runs = |arch: Arch| match arch.suffix {
            None => (arch.major, arch.minor) <= (major, minor),
            Some(_) => arch.runs_on(major, minor),
        };
        let ptx = binary::find_kernel_ptx(&module, &launch.kernel, runs);
        let Some(ptx) = ptx.map_err(|error| broken(&error))? else {
            return Ok(Err(
                "its module has no PTX, which the simulator runs".to_owned()
            ));
        };
        if self.form == Form::Ptx && changes_maps(&ptx.text, &launch.kernel) {
            return Ok(Err(
                "it changes tensor maps, whose bytes are others in the simulator".to_owned(),
            ));
        }
        let source = format!("modules/{}-{}.ptx", &digest[..16], ptx.arch);
        self.write(&source, &ptx.text)?;
        Ok(Ok((source, ptx.arch)))
    }

    fn find_machine_code(
        &self,
        module: &[u8],
        launch: &LaunchRecord,
    ) -> Result<Option<(Arch, Vec<u8>)>> {
        let [major, minor] = launch.capability;
        let runs = |arch: Arch| arch.runs_on(major, minor);
        let code = binary::find_code(module, &launch.kernel, runs);
        let code = code.map_err(|error| {
            Error::environment(format!("the module of {}: {error}", launch.kernel)).caused_by(error)
        })?;
        Ok(code.map(|code| (code.arch, code.bytes.into_owned())))
    }

    fn write(&self, source: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(source);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.map_err(|error| Error::at_path(&path, error))?;
        write_atomically(&path, bytes)
    }

    fn make_case(&self, id: CaseId, launch: &LaunchRecord) -> Case {
        let mut tensors = Vec::new();
        let mut outputs = BTreeMap::new();
        for allocation in &launch.allocations {
            let name = format!("at_{:x}", allocation.address);
            let bytes = allocation.before.bytes;
            // Words need less memory than bytes during a comparison, and their differences are exact.
            let (elem, count) = match bytes % 4 {
                0 => (ElemType::U32, bytes / 4),
                _ => (ElemType::U8, bytes),
            };
            let role = match &allocation.after {
                Some(after) => {
                    outputs.insert(name.clone(), self.content(after));
                    Role::Inout
                }
                None => Role::In,
            };
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            tensors.push(Tensor {
                fill: Some(Fill::Captured {
                    content: self.content(&allocation.before),
                }),
                address: Some(allocation.address),
                pointers: find_pointers(launch, allocation),
                ..Tensor::new(&name, role, elem, vec![count])
            });
        }
        for variable in &launch.variables {
            let count = usize::try_from(variable.before.bytes).unwrap_or(usize::MAX);
            let name = tensor_of(&variable.name);
            tensors.push(Tensor {
                fill: Some(Fill::Captured {
                    content: self.content(&variable.before),
                }),
                ..Tensor::new(&name, Role::In, ElemType::U8, vec![count])
            });
        }
        let args = launch
            .parameters
            .iter()
            .map(|parameter| Arg::Raw {
                bytes: parameter.bytes.clone(),
            })
            .collect();
        Case {
            tensors,
            steps: vec![Step::new(args, Some(extents_of(launch)))],
            seeds: SEEDS.to_vec(),
            reference: if outputs.is_empty() {
                Reference::NoOutput
            } else {
                Reference::Captured { outputs }
            },
            tolerance: Some(Num(0.0)),
            launches: config::LAUNCHES,
            deadline_ms: DEADLINE_MS,
            timed: true,
            ..Case::empty(id)
        }
    }

    fn content(&self, content: &Content) -> CapturedContent {
        CapturedContent {
            capture: self.root.display().to_string(),
            bytes: content.bytes,
            chunks: hashes(content),
            part: None,
        }
    }

    fn finish(self, dir: &Path) -> Loaded {
        let plan = Plan {
            units: self.units,
            cases: self.cases,
            uncaptured: self.gaps,
            simulation: config::SIMULATION,
            ..Plan::empty(config::default_timing())
        };
        let gates = gates(&plan);
        let places = Places {
            file: dir.display().to_string(),
            text: String::new(),
        };
        Loaded {
            root: self.root,
            ..Loaded::new(places, plan, gates)
        }
    }
}

/// Returns true if a kernel changes tensor maps. It leaves the changed map in memory, and the simulator's bytes of a
/// map are never those that a GPU left.
fn changes_maps(ptx: &[u8], kernel: &str) -> bool {
    let text = String::from_utf8_lossy(ptx);
    let entry = binary::find_entry(&text, kernel).unwrap_or_default();
    let body = entry.split_once("\n}").map_or(entry, |(body, _)| body);
    body.contains("tensormap.replace.")
}

/// The reasons for which a launch has no form for the simulator.
enum Untranslated {
    /// The simulator has no such map.
    Lacking(String),
    Error(Error),
}

impl From<Error> for Untranslated {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Returns the places of maps, and the simulator's bytes of them.
fn encode_all(maps: &[PlacedMap]) -> std::result::Result<Vec<(usize, Vec<u8>)>, Untranslated> {
    maps.iter()
        .map(|PlacedMap { offset, map }| {
            let at = usize::try_from(*offset).unwrap_or(usize::MAX);
            Ok((at, encode(map).map_err(Untranslated::Lacking)?))
        })
        .collect()
}

fn put(bytes: &mut [u8], at: usize, map: &[u8]) -> Result<()> {
    let place = bytes
        .get_mut(at..)
        .and_then(|byte| byte.get_mut(..map.len()));
    place.ok_or_else(misplaced)?.copy_from_slice(map);
    Ok(())
}

fn misplaced() -> Error {
    Error::environment("the capture is damaged: a tensor map lies outside of its memory")
}

/// Returns the simulator's bytes of a tensor map, or why it has none.
fn encode(map: &EncodedMap) -> std::result::Result<Vec<u8>, String> {
    let lacking = match map {
        EncodedMap::Described { address, map } => {
            let encoded = ptxsim::encode_tensor_map(map, *address);
            return match encoded {
                Ok(bytes) => Ok(bytes.to_vec()),
                Err(error) => Err(format!("the simulator cannot read its tensor map: {error}")),
            };
        }
        EncodedMap::Interleaved => "an interleaved layout".to_owned(),
        EncodedMap::DataType { number } => format!("CUtensorMapDataType {number}"),
        EncodedMap::Swizzle { number } => format!("CUtensorMapSwizzle {number}"),
    };
    Err(format!("the simulator has no tensor maps with {lacking}"))
}

/// Returns how a captured launch was made.
pub fn extents_of(launch: &LaunchRecord) -> Launch {
    Launch {
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        cooperative: launch.cooperative,
        dynamic_shared: launch.dynamic_shared,
    }
}

fn make_unit(id: UnitId, source: &str, launch: &LaunchRecord) -> Unit {
    let constants = launch.variables.iter().map(|variable| Constant {
        name: variable.name.clone(),
        tensor: tensor_of(&variable.name),
    });
    Unit {
        id,
        source: source.to_owned(),
        include_dirs: Vec::new(),
        defines: BTreeMap::new(),
        flags: Vec::new(),
        call: Callable::Entries {
            names: vec![launch.kernel.clone()],
            constants: constants.collect(),
        },
    }
}

/// Returns the tensor that fills a variable.
fn tensor_of(variable: &str) -> String {
    format!("variable {variable}")
}

/// Returns the rules of all units and cases that need no writing.
pub fn gates(plan: &Plan) -> Vec<Gate> {
    plan.units
        .iter()
        .map(|unit| Gate {
            subject: Subject::Unit(unit.id.clone()),
            rule: Rule::Built,
            declared: None,
        })
        .chain(plan.cases.iter().flat_map(gates_of))
        .collect()
}

/// Returns the rules that need no writing, and a gate that compares each output with the captured one: bit for bit,
/// unless the user allows floats to differ.
fn gates_of(case: &Case) -> Vec<Gate> {
    let same = Rule::Limit {
        metric: Metric::MaxErr,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Value(case.tolerance.unwrap_or(Num(0.0))),
        },
    };
    // The limits of a reference are written in gates.yaml.
    let is_captured = matches!(case.reference, Reference::Captured { .. });
    let of_outputs = [Rule::Written, Rule::Deterministic];
    let of_outputs = of_outputs.into_iter().chain(is_captured.then_some(same));
    let of_all = [Rule::InputsIntact, Rule::AgreesWithDriver, Rule::NoFindings];
    let rules = of_outputs.filter(|_| case.has_output());
    let subject = Subject::Case(case.id.clone());
    let gates = rules.chain(of_all).map(|rule| Gate {
        subject: subject.clone(),
        rule,
        declared: None,
    });
    gates.collect()
}

fn hashes(content: &Content) -> Vec<String> {
    content
        .chunks
        .iter()
        .map(|hash| String::from(*hash))
        .collect()
}

/// Returns the name that a kernel has in its cases if no other kernel has the same name.
pub fn name(symbol: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '_'
        }
    };
    let name: String = unqualified(symbol).chars().map(plain).collect();
    if name.is_empty() {
        "kernel".to_owned()
    } else {
        name
    }
}

/// Returns the name of a kernel without namespaces, template arguments and parameters.
pub fn unqualified(symbol: &str) -> String {
    let whole = qualified(symbol).replace("(anonymous namespace)::", "");
    let name = whole.split(['<', '(']).next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

/// The short names of kernels. Each is given only once.
#[derive(Default)]
struct ShortNames(BTreeMap<String, u32>);

impl ShortNames {
    /// Returns `softmax_warp_forward` for a symbol, and `softmax_warp_forward-2` for the next kernel of that name.
    fn name(&mut self, symbol: &str) -> String {
        let name = name(symbol);
        let count = self.0.entry(name.clone()).or_default();
        *count += 1;
        match *count {
            1 => name,
            count => format!("{name}-{count}"),
        }
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// Returns a case of a launch that has only tensors.
    pub fn case(id: CaseId, tensors: Vec<Tensor>) -> Case {
        Case {
            tensors,
            seeds: SEEDS.to_vec(),
            reference: Reference::NoOutput,
            launches: config::LAUNCHES,
            deadline_ms: DEADLINE_MS,
            timed: true,
            ..Case::empty(id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ShortNames, changes_maps};

    #[test]
    fn only_the_kernel_that_changes_tensor_maps_changes_them() {
        let ptx = ".entry plain(\n)\n{\nret;\n}\n.entry changing(\n)\n{\n{\ntensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1;\n\t}\n}\n";
        let changing =
            ["plain", "changing", "missing"].map(|name| changes_maps(ptx.as_bytes(), name));
        assert_eq!(changing, [false, true, false]);
    }

    #[test]
    fn names_are_short_and_given_once() {
        let mut names = ShortNames::default();
        for (symbol, wanted) in [
            ("_Z5scale4ViewfPf", "scale"),
            ("_Z5scale4ViewfPf", "scale-2"),
            ("add_kernel", "add_kernel"),
            (
                "_ZN2at6native13reduce_kernelILi512EfEEvT0_",
                "reduce_kernel",
            ),
            ("_ZN2at6native12_GLOBAL__N_16kernelEPf", "kernel"),
            ("$weird name$", "_weird_name_"),
            ("", "kernel-2"),
        ] {
            assert_eq!(names.name(symbol), wanted);
        }
    }
}
