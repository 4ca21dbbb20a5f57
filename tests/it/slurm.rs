//! Tests examples/slurm on a real Slurm of one node, with daemons of its own. Nothing of the machine's own is used or
//! changed.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{binary, edit, git, project, root, run, stderr, stdout};
use model::Record;
use records::store::read_record;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Daemons that end, and are waited for, when the test ends.
struct Daemons(Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in self.0.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn started(dir: &Path, name: &str, program: &str, args: &[&str]) -> Child {
    let log = fs::File::create(dir.join(format!("{name}.out"))).unwrap();
    Command::new(program)
        .args(args)
        .env("SLURM_CONF", dir.join("slurm.conf"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{program}: {error}; apt-get install slurmctld slurmd munge")
        })
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    stdout(&output).trim().to_owned()
}

/// Returns a port on which nothing listens.
fn port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts munged, slurmctld and slurmd, and waits until the node is idle.
fn slurm(dir: &Path) -> Daemons {
    let at = |name: &str| dir.join(name).display().to_string();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["state", "spool"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    let key: Vec<u8> = (0..=255).cycle().take(1024).collect();
    fs::write(dir.join("munge.key"), key).unwrap();
    fs::set_permissions(dir.join("munge.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let (host, user) = (said("hostname", &["-s"]), said("id", &["-un"]));
    let conf = format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser={user}\nSlurmdUser={user}\n\
         SlurmctldPort={}\nSlurmdPort={}\nAuthType=auth/munge\nAuthInfo=socket={}\nCredType=cred/munge\n\
         StateSaveLocation={}\nSlurmdSpoolDir={}\nSlurmctldPidFile={}\nSlurmdPidFile={}\nMpiDefault=none\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
         SchedulerType=sched/backfill\nSchedulerParameters=sched_interval=1,batch_sched_delay=0\nMinJobAge=300\n\
         JobRequeue=0\nReturnToService=2\nSlurmdParameters=config_overrides\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN\n\
         PartitionName=all Nodes=ALL Default=YES State=UP\n",
        port(),
        port(),
        at("munge.socket"),
        at("state"),
        at("spool"),
        at("slurmctld.pid"),
        at("slurmd.pid"),
    );
    fs::write(dir.join("slurm.conf"), conf).unwrap();
    let munged = [
        "--foreground",
        "--force",
        &format!("--socket={}", at("munge.socket")),
        &format!("--key-file={}", at("munge.key")),
        &format!("--pid-file={}", at("munged.pid")),
        &format!("--log-file={}", at("munged.log")),
        &format!("--seed-file={}", at("munged.seed")),
    ];
    let mut daemons = Daemons(vec![started(dir, "munged", "munged", &munged)]);
    wait_for(dir, "munged", || dir.join("munge.socket").exists());
    daemons
        .0
        .push(started(dir, "slurmctld", "slurmctld", &["-D", "-i"]));
    daemons
        .0
        .push(started(dir, "slurmd", "slurmd", &["-D", "-N", &host]));
    wait_for(dir, "the node", || {
        let mut sinfo = Command::new("sinfo");
        sinfo
            .args(["-h", "-o", "%t"])
            .env("SLURM_CONF", dir.join("slurm.conf"));
        stdout(&sinfo.output().unwrap()).trim() == "idle"
    });
    daemons
}

fn wait_for(dir: &Path, what: &str, is_there: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_there() {
        let logs = ["munged.out", "slurmctld.out", "slurmd.out"];
        let logs = logs.map(|name| fs::read_to_string(dir.join(name)).unwrap_or_default());
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{what}: {logs:#?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns a record without the facts about when, where and how long it ran.
fn verdicts(record: &Record) -> serde_json::Value {
    serde_json::to_value(judge::judge(record)).unwrap()
}

#[test]
#[ignore = "needs slurmctld, slurmd and munge of the distribution"]
fn an_array_that_loses_a_node_is_whole_when_that_element_ran_again() {
    let cluster = tempfile::tempdir().unwrap();
    let daemons = slurm(cluster.path());
    let at = |name: &str| cluster.path().join(name);

    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "      small: {N: 1000}\n",
        "      small: {N: 1000}\n      large: {N: 2000}\n",
    );
    git(dir, &["init", "--quiet"]);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "first"]);
    let simulate = ["run", "--provision", "--device", "sim"];
    let whole = at("whole");
    run(
        dir,
        &[&simulate[..], &["--out", whole.to_str().unwrap()]].concat(),
        0,
    );

    // The node goes down once while shard 2 runs on it, which leaves no record and no verdict.
    fs::create_dir(at("bin")).unwrap();
    let stand_in = format!(
        "#!/bin/sh\nif [ \"$1 $3\" = 'run 2/3' ] && [ ! -e {0}/died ]; then touch {0}/died; kill -9 $$; fi\nexec {1} \"$@\"\n",
        cluster.path().display(),
        binary().display()
    );
    let program = at("bin/gatekeeper");
    fs::write(&program, stand_in).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let results = at("results");
    let submit = |args: &[&str]| -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new(root().join("examples/slurm/submit"))
            .arg(&results)
            .args(args)
            .current_dir(dir)
            .env("SLURM_CONF", at("slurm.conf"))
            .env("PATH", format!("{}:{path}", at("bin").display()))
            .output()
            .unwrap()
    };
    let ended = |output: &Output, code: i32, says: &str| {
        let said = stdout(output);
        assert_eq!(output.status.code(), Some(code), "{said}{}", stderr(output));
        assert!(said.contains(says), "{says}: {said}");
    };
    let first = submit(&["3", "--device", "sim"]);
    ended(&first, 2, "error: on the simulator there is no shard 2/3\n");
    assert!(!results.join("merged").exists());
    let kept = fs::metadata(results.join("1/record.json"))
        .unwrap()
        .modified()
        .unwrap();

    let again = submit(&["--again", "2"]);
    ended(&again, 0, "PASS: ");
    let merged = read_record(&results.join("merged/record.json")).unwrap();
    let whole = read_record(&whole.join("record.json")).unwrap();
    assert_eq!(verdicts(&merged), verdicts(&whole));
    assert_eq!(merged.environment.parts.len(), 3);
    let now = fs::metadata(results.join("1/record.json"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(now, kept, "the others were not run again");

    // A failure in one element fails the whole job, with a message.
    edit(
        &dir.join("copy.cu"),
        "y[i] = staged[255 - threadIdx.x]",
        "y[i] = n == 2000 ? 0 : staged[255 - threadIdx.x]",
    );
    let red = submit(&["3", "--device", "sim"]);
    ended(&red, 1, "✗ copy/default@large  max_err");
    // An element that runs again from other sources than the others does not complete the whole.
    edit(&dir.join("copy.cu"), "n == 2000 ? 0 : ", "");
    ended(&submit(&["--again", "2"]), 2, "its sources are others");
    ended(&submit(&["three"]), 2, "");
    drop(daemons);
}
