//! Rivals: other programs that do the work of a kernel. One process of one: started confined, with what it is to do
//! on its standard input, held to a deadline, its answer checked. Knows nothing of gates; what the answer may be is
//! in `protocol`.

mod protocol;

use model::{CaseId, DeviceFacts, Fault, FaultKind, Plan, Rival, RivalFacts};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use system::process;
use system::process::confine::{self, Rules, Sockets};
use system::temporary::TemporaryDir;

/// The rivals of one run.
#[derive(Default)]
pub struct Rivals {
    /// The directory that they may write to: one process finds what another has compiled. Made for the first.
    scratch: Option<TemporaryDir>,
}

impl Rivals {
    /// One process, over all of these tasks.
    ///
    /// # Errors
    /// A [`FaultKind::Rival`], whatever breaks: no kernel is wrong for it.
    pub fn run(
        &mut self,
        rival: &Rival,
        root: &Path,
        device: &DeviceFacts,
        plan: &Plan,
        tasks: &[&CaseId],
    ) -> Result<BTreeMap<CaseId, RivalFacts>, Fault> {
        let scratch = self.scratch();
        let answer = scratch.and_then(|scratch| ask(rival, root, scratch, device, plan, tasks));
        answer.map_err(|problem| Fault::new(FaultKind::Rival, format!("{}: {problem}", rival.name)))
    }

    fn scratch(&mut self) -> Result<&Path, String> {
        let made = match self.scratch.take() {
            Some(scratch) => scratch,
            None => TemporaryDir::new_in(&std::env::temp_dir())
                .map_err(|error| format!("it has no directory to write to: {error}"))?,
        };
        Ok(self.scratch.insert(made).path())
    }
}

fn ask(
    rival: &Rival,
    root: &Path,
    scratch: &Path,
    device: &DeviceFacts,
    plan: &Plan,
    tasks: &[&CaseId],
) -> Result<BTreeMap<CaseId, RivalFacts>, String> {
    let request = protocol::Request::of(rival, device, plan, tasks);
    let text = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
    let mut command = command(rival, root, device)?;
    confine(&mut command, scratch).map_err(|error| format!("it cannot be confined: {error}"))?;
    let deadline = Duration::from_millis(rival.deadline_ms);
    let most = request.longest_answer();
    let answered = process::ask(command, &text, deadline, most);
    let answered = answered.map_err(|error| {
        let program = rival.command.first().map_or("", String::as_str);
        format!("{program} cannot be started: {error}")
    })?;
    let Some(answered) = answered else {
        return Err(format!(
            "no answer within {:.0} s; it was killed",
            deadline.as_secs_f64()
        ));
    };
    if !answered.status.success() {
        return Err(protocol::scrubbed(&answered.failure()));
    }
    if answered.output.len() as u64 > most {
        return Err(format!("its answer is longer than {most} bytes"));
    }
    request.read(&answered.output)
}

fn command(rival: &Rival, root: &Path, device: &DeviceFacts) -> Result<Command, String> {
    let [program, arguments @ ..] = rival.command.as_slice() else {
        return Err("it has no command".to_owned());
    };
    let root = std::path::absolute(root).map_err(|error| error.to_string())?;
    // A name without a slash is looked for in PATH.
    let mut command = match program.contains('/') {
        true => Command::new(root.join(program)),
        false => Command::new(program),
    };
    command.args(arguments).current_dir(root);
    let listed = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    command.env("CUDA_VISIBLE_DEVICES", visible(listed.as_deref(), device));
    // As for our own workers: it would put the host into the times.
    command.env_remove("CUDA_LAUNCH_BLOCKING");
    Ok(command)
}

/// A larger file is none that a compiler makes of a kernel.
const LARGEST_FILE: u64 = 4 << 30;

/// Variables that a rival may see, by how their names begin: where programs and libraries are, and how they use the
/// GPU.
const TOLD: [&str; 17] = [
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

/// A rival is a stranger's code as much as a launcher: it reaches the GPU and its services, and writes what it compiles
/// to a directory of the run.
fn confine(command: &mut Command, scratch: &Path) -> std::io::Result<()> {
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
    let rules = Rules {
        writes: &[scratch, Path::new("/dev")],
        hidden: None,
        sockets: Sockets::Local,
        // A CUDA process reserves more than the machine has.
        memory: None,
        file: Some(LARGEST_FILE),
    };
    confine::confine(command, &rules)
}

/// This GPU alone, by the name that whoever started us gave it: an instance of a divided GPU has another.
fn visible(listed: Option<&str>, device: &DeviceFacts) -> String {
    let own = listed.and_then(|all| all.split(',').nth(device.ordinal as usize));
    match own.map(str::trim) {
        Some(own) if !own.is_empty() => own.to_owned(),
        _ => device.uuid.clone(),
    }
}

#[cfg(test)]
mod tests;
