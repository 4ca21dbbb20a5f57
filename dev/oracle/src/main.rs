//! `gatekeeper run`, whose workers launch each kernel in two simulators: ptxsim, and what it was before. `dev/oracle/compare`
//! runs this, the tests of ptxsim and random programs, and says what differed.

use clap::Parser;
use gatekeeper::cli::{Cli, Command};
use gatekeeper::cmd;
use report::exit::Exit;
use run::device::DeviceChoice;
use std::process::ExitCode;
use system::process::children;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    if let Err(error) = system::limits::prepare().and_then(|()| children::end_on_signals()) {
        cmd::complain(&error);
        return Exit::from(&error).into();
    }
    cmd::enter_project(&command);
    match command {
        Command::Run(args) => match cmd::run::run(&args) {
            Ok(exit) => exit.into(),
            Err(error) => {
                cmd::complain(&error);
                Exit::from(&error).into()
            }
        },
        // The parent starts this program again as its worker.
        Command::Worker {
            device: DeviceChoice::Sim,
        } => run_in_both::worker::child::main(run_in_both::device::DeviceChoice::Sim),
        _ => {
            eprintln!("oracle: it only has `run --device sim`");
            ExitCode::from(2)
        }
    }
}
