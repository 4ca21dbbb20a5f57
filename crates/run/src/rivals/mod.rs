//! Runs rivals: other programs that do the work of a kernel. Each of their processes is started confined, loads, and
//! then gets its tasks, one on each line. Every answer has a deadline and is checked. This module knows nothing of
//! gates, and `protocol` knows the messages.
//!
//! A process does one turn, because statistics count processes. Loading a library takes seconds, so the process of the
//! next turn loads while this one is on the GPU, and then waits. It may not use the GPU before its turn begins, and has
//! ended when its turn is over, so no rival is on the GPU while our kernels are timed. A program could not load once
//! and fork: the driver has to write below /proc/self, and a confined process may write there only for itself.

mod protocol;

use model::{CaseId, Contest, DeviceFacts, Fault, FaultKind, Plan, Rival, RivalFacts};
use protocol::{AskedTask, Begun, ExpectedAnswer, Message, ProtocolError, Sampling};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;
use system::process;
use system::process::confine::{self, Metadata, Rules, Sockets};
use system::process::dialogue::{Dialogue, Heard};
use system::temporary::TemporaryDir;

/// The number of times that a program may break in one run before it is not started again.
const MOST_BREAKS: u32 = 3;

/// The time that a program may take to end after it has closed its output.
const FAREWELL: Duration = Duration::from_secs(5);

/// The reason for which a rival has no times. `fault` makes the text of it.
#[derive(Debug, thiserror::Error)]
enum RivalError {
    #[error("it has no directory to write to: {0}")]
    NoDirectory(#[source] io::Error),
    #[error("it has no command")]
    NoCommand,
    #[error(transparent)]
    Root(io::Error),
    #[error("{program} cannot be started: {source}")]
    NotStarted { program: String, source: io::Error },
    #[error("its task is not in the plan")]
    UnknownTask,
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("its answer is longer than {0} bytes")]
    TooLong(u64),
    #[error("no answer within {:.0} s; it was killed", .0.as_secs_f64())]
    Late(Duration),
    #[error("it ended without an answer")]
    NoAnswer,
    #[error("it closed its output without an answer; it was killed")]
    Closed,
    /// The status with which it ended and its last words.
    #[error("{0}")]
    Failed(String),
    #[error("it broke {times} times and was not started again, the last time: {last}", times = MOST_BREAKS)]
    GivenUp {
        #[source]
        last: Arc<RivalError>,
    },
}

/// The rivals of one run, with their processes.
#[derive(Default)]
pub struct Rivals {
    /// The programs. They are dropped before `scratch`, to which they write.
    programs: Vec<RivalProgram>,
    /// The directory that they may write to, in which one process finds what another has compiled. It is made for the
    /// first process.
    scratch: Option<TemporaryDir>,
}

/// A task that a rival is asked to do.
#[derive(Clone, Copy)]
pub struct RivalRequest<'a> {
    pub rival: &'a Rival,
    pub task: &'a CaseId,
    /// True if another process will do the task in a later turn.
    pub again: bool,
}

/// The surroundings in which rivals run.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The directory in which gates.yaml is.
    pub root: &'a Path,
    pub device: &'a DeviceFacts,
    pub plan: &'a Plan,
}

impl Rivals {
    /// Takes one turn: each program does these tasks in one process, one after another. `on_answer` gets the number of
    /// a task and its result. Every fault is a [`FaultKind::Rival`], because a broken rival does not make a kernel
    /// wrong.
    pub fn take_turn(
        &mut self,
        setting: Setting,
        asked: &[RivalRequest],
        mut on_answer: impl FnMut(usize, Result<RivalFacts, Fault>),
    ) {
        let mut done = BTreeSet::new();
        for request in asked {
            let command = &request.rival.command;
            if !done.insert(command) {
                continue;
            }
            let own: Vec<_> = asked
                .iter()
                .enumerate()
                .filter(|(_, request)| request.rival.command == *command)
                .collect();
            match self.scratch() {
                Ok(scratch) => {
                    let scratch = scratch.to_owned();
                    let program = self.program(command);
                    program.take_turn(setting, &scratch, &own, &mut on_answer);
                }
                Err(problem) => {
                    for (at, request) in own {
                        on_answer(at, Err(fault(request, &problem)));
                    }
                }
            }
        }
    }

    fn program(&mut self, command: &[String]) -> &mut RivalProgram {
        let known = self
            .programs
            .iter()
            .position(|program| program.command == command);
        let at = known.unwrap_or(self.programs.len());
        if known.is_none() {
            self.programs.push(RivalProgram {
                command: command.to_vec(),
                standby: None,
                breaks: 0,
                given_up: None,
            });
        }
        &mut self.programs[at]
    }

    fn scratch(&mut self) -> Result<&Path, RivalError> {
        let made = match self.scratch.take() {
            Some(scratch) => scratch,
            None => TemporaryDir::new_in(&std::env::temp_dir()).map_err(RivalError::NoDirectory)?,
        };
        Ok(self.scratch.insert(made).path())
    }
}

fn fault(asked: &RivalRequest, problem: &RivalError) -> Fault {
    let message = format!("{}: {problem}", asked.rival.name);
    Fault::new(FaultKind::Rival, message)
}

/// A program of one run. Rivals of several kernels may have the same command.
struct RivalProgram {
    command: Vec<String>,
    /// The process for the next turn, which loads or waits.
    standby: Option<Running>,
    breaks: u32,
    /// The reason for which it gets no more tasks.
    given_up: Option<Arc<RivalError>>,
}

/// A process that was started, for one turn.
struct Running {
    dialogue: Dialogue,
    longest_line: u64,
}

impl RivalProgram {
    fn take_turn(
        &mut self,
        setting: Setting,
        scratch: &Path,
        asked: &[(usize, &RivalRequest)],
        on_answer: &mut impl FnMut(usize, Result<RivalFacts, Fault>),
    ) {
        let again = asked.iter().find(|(_, request)| request.again);
        let mut turn = None;
        for (at, request) in asked {
            let answer = self.answer(setting, scratch, request, &mut turn);
            on_answer(*at, answer.map_err(|problem| fault(request, &problem)));
            if let (Some((_, Begun::Ready { .. })), Some((_, next)), None) =
                (&turn, again, &self.standby)
            {
                // A process that cannot be started reports it in its turn.
                self.standby = Running::start(next.rival, setting, scratch).ok();
            }
        }
        if let Some((running, _)) = turn {
            let deadline = asked
                .iter()
                .map(|(_, request)| deadline(request.rival))
                .max();
            if let Err(problem) = running.end(deadline.unwrap_or_default()) {
                self.broke(Arc::new(problem));
            }
        }
    }

    fn answer(
        &mut self,
        setting: Setting,
        scratch: &Path,
        asked: &RivalRequest,
        turn: &mut Option<(Running, Begun)>,
    ) -> Result<RivalFacts, Arc<RivalError>> {
        if let Some(why) = &self.given_up {
            return Err(Arc::clone(why));
        }
        let (mut running, begun) = match turn.take() {
            Some(turn) => turn,
            None => self
                .begin_turn(setting, scratch, asked)
                .map_err(Arc::new)
                .inspect_err(|why| {
                    // The start does not depend on a task, so another process would end like this one.
                    self.standby = None;
                    self.given_up = Some(Arc::clone(why));
                })?,
        };
        let facts = match &begun {
            Begun::Skipped { because } => Ok(protocol::skip_all(asked.rival, because)),
            Begun::Ready { versions } => running.ask(setting, asked).map(|backends| RivalFacts {
                versions: versions.clone(),
                backends,
            }),
        }
        .map_err(Arc::new);
        match &facts {
            Ok(_) => *turn = Some((running, begun)),
            Err(problem) => self.broke(Arc::clone(problem)),
        }
        facts
    }

    /// Notes a broken process. Another process does the next task, unless too many of them broke.
    fn broke(&mut self, problem: Arc<RivalError>) {
        self.breaks += 1;
        if self.breaks >= MOST_BREAKS {
            self.standby = None;
            self.given_up = Some(Arc::new(RivalError::GivenUp { last: problem }));
        }
    }

    fn begin_turn(
        &mut self,
        setting: Setting,
        scratch: &Path,
        asked: &RivalRequest,
    ) -> Result<(Running, Begun), RivalError> {
        let mut running = match self.standby.take() {
            Some(running) => running,
            None => Running::start(asked.rival, setting, scratch)?,
        };
        let begin = Message::begin(setting.device, setting.plan);
        let line = running.exchange(&begin, deadline(asked.rival))?;
        let begun = protocol::read_begun(&line)?;
        Ok((running, begun))
    }
}

impl Running {
    fn start(rival: &Rival, setting: Setting, scratch: &Path) -> Result<Self, RivalError> {
        let mut command = command(rival, setting.root, setting.device)?;
        prepare(&mut command, scratch);
        let rules = Rules {
            writes: &[scratch, Path::new("/dev")],
            hidden: None,
            sockets: Sockets::Local,
            metadata: Metadata::Kept,
            // The memory is not limited, because a CUDA process reserves more than the machine has.
            memory: None,
            file: Some(LARGEST_FILE),
        };
        let longest_line = protocol::longest_line(setting.plan);
        let dialogue = Dialogue::start(command, Some(&rules), longest_line).map_err(|source| {
            RivalError::NotStarted {
                program: rival.command.first().cloned().unwrap_or_default(),
                source,
            }
        })?;
        Ok(Self {
            dialogue,
            longest_line,
        })
    }

    fn ask(
        &mut self,
        setting: Setting,
        asked: &RivalRequest,
    ) -> Result<BTreeMap<String, Contest>, RivalError> {
        let plan = setting.plan;
        let case = plan.case(asked.task).ok_or(RivalError::UnknownTask)?;
        let task = Message::Task(Box::new(AskedTask::new(asked.rival, plan, case)));
        let line = self.exchange(&task, deadline(asked.rival))?;
        let expected = ExpectedAnswer {
            id: &asked.task.to_string(),
            backends: &asked.rival.backends,
            sampling: Sampling::for_plan(plan),
        };
        Ok(expected.read(&line)?)
    }

    /// Sends one message, and waits for the line that answers it.
    fn exchange(&mut self, message: &Message, deadline: Duration) -> Result<Vec<u8>, RivalError> {
        // If the process accepts no lines it has ended, and reading the answer shows that.
        self.dialogue.send(message.line()?);
        Err(match self.dialogue.hear(deadline) {
            Heard::Line(line) => return Ok(line),
            Heard::TooLong => RivalError::TooLong(self.longest_line),
            Heard::Nothing => RivalError::Late(deadline),
            Heard::End => match self.dialogue.end(FAREWELL) {
                Some(status) if status.success() => RivalError::NoAnswer,
                Some(status) => self.failure(status),
                None => RivalError::Closed,
            },
        })
    }

    /// Waits until the process is gone from the GPU.
    fn end(mut self, deadline: Duration) -> Result<(), RivalError> {
        match self.dialogue.end(deadline) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failure(status)),
            None => Err(RivalError::Late(deadline)),
        }
    }

    fn failure(&self, status: ExitStatus) -> RivalError {
        let log = self.dialogue.last_words();
        RivalError::Failed(protocol::scrubbed(&process::failure(status, &log)))
    }
}

fn deadline(rival: &Rival) -> Duration {
    Duration::from_millis(rival.deadline_ms)
}

fn command(rival: &Rival, root: &Path, device: &DeviceFacts) -> Result<Command, RivalError> {
    let [program, arguments @ ..] = rival.command.as_slice() else {
        return Err(RivalError::NoCommand);
    };
    let root = std::path::absolute(root).map_err(RivalError::Root)?;
    // A name without a slash is looked for in PATH.
    let mut command = if program.contains('/') {
        Command::new(root.join(program))
    } else {
        Command::new(program)
    };
    command.args(arguments).current_dir(root);
    let listed = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    command.env("CUDA_VISIBLE_DEVICES", visible(listed.as_deref(), device));
    // With this variable, the host's part of a launch would be in the times.
    command.env_remove("CUDA_LAUNCH_BLOCKING");
    Ok(command)
}

/// The largest file that a rival may write. No compiler makes a larger one of a kernel.
const LARGEST_FILE: u64 = 4 << 30;

/// Variables that a rival may see, by how their names begin: where programs and libraries are, and how they use the
/// GPU.
pub const TOLD: [&str; 17] = [
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_",
    "PYTHON",
    "VIRTUAL_ENV",
    "CONDA_",
    "CUDA_",
    "CUDNN_",
    "CUBLAS",
    "NVIDIA_",
    "OMP_",
    "MKL_",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
];

/// Sets the environment of a rival. It is a stranger's code like a launcher, so it sees few variables, and writes what
/// it compiles to a directory of the run.
fn prepare(command: &mut Command, scratch: &Path) {
    confine::tell(command, &TOLD);
    for name in [
        "TMPDIR",
        "XDG_CACHE_HOME",
        "CUDA_CACHE_PATH",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
    ] {
        command.env(name, scratch);
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1");
}

/// Returns the name of this GPU for CUDA_VISIBLE_DEVICES. It is the name that the caller's environment has for it,
/// because an instance of a divided GPU has a name of its own.
fn visible(listed: Option<&str>, device: &DeviceFacts) -> String {
    let own = listed.and_then(|all| all.split(',').nth(device.ordinal as usize));
    match own.map(str::trim) {
        Some(own) if !own.is_empty() => own.to_owned(),
        _ => device.uuid.clone(),
    }
}

#[cfg(test)]
mod tests;
