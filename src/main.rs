//! The program: takes a command, and ends with an exit code.

use clap::Parser;
use gatekeeper::cli::{BaselineCommand, CacheCommand, Cli, Command, ToolchainCommand};
use gatekeeper::{cmd, logging};
use records::store::WorseValues;
use report::exit::Exit;
use std::process::ExitCode;
use system::cache::evict::Limits;
use system::process::children;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let is_worker = matches!(command, Command::Worker { .. });
    let logs = if is_worker { Ok(()) } else { logging::start() };
    let prepared = logs
        .and_then(|()| system::limits::prepare())
        .and_then(|()| children::end_on_signals());
    if let Err(error) = prepared {
        cmd::complain(&error);
        return Exit::from(&error).into();
    }
    cmd::enter_project(&command);
    let outcome = match command {
        Command::Run(args) if args.watch => cmd::watch::watch(&args),
        Command::Run(args) => cmd::run::run(&args),
        Command::Profile(args) => cmd::profile::run(&args),
        Command::Bisect(args) => cmd::bisect::run(&args),
        Command::Compare(args) => cmd::judge::compare(&args),
        Command::Judge(args) => cmd::judge::judge(&args),
        Command::Merge(args) => cmd::merge::run(&args),
        Command::Report(args) => cmd::judge::report(&args),
        Command::Explain(args) => cmd::explain::run(&args),
        Command::Baseline(BaselineCommand::Update {
            record,
            config,
            filters,
            allow_worse,
        }) => {
            let treatment = if allow_worse {
                WorseValues::Accepted
            } else {
                WorseValues::Refused
            };
            cmd::baseline::update(&record, &config, &filters, treatment)
        }
        Command::Baseline(BaselineCommand::Rename { from, to, config }) => {
            cmd::baseline::rename(&from, &to, &config)
        }
        Command::Baseline(BaselineCommand::Show { config, filters }) => {
            cmd::baseline::show(&config, &filters)
        }
        Command::Capture(args) => cmd::capture::run(&args),
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Tune(args) => cmd::tune::run(&args),
        Command::Binary(args) => cmd::binary::run(&args),
        Command::History(args) => cmd::history::run(&args),
        Command::Validate(args) => cmd::config::validate(&args),
        Command::List(args) => cmd::list::run(&args),
        Command::Init(args) => cmd::init::run(&args),
        Command::Schema { of } => cmd::config::schema(of),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Toolchain(ToolchainCommand::Install { version }) => {
            cmd::toolchain::install(&version)
        }
        Command::Toolchain(ToolchainCommand::List) => cmd::toolchain::list(),
        Command::Toolchain(ToolchainCommand::Show(config)) => cmd::toolchain::show(&config),
        Command::Cache(CacheCommand::Show) => cmd::cache::show(),
        Command::Cache(CacheCommand::Prune {
            max_size,
            older_than,
            dry_run,
        }) => {
            let limits = Limits {
                bytes: max_size,
                age: older_than,
            };
            cmd::cache::prune(limits, dry_run)
        }
        Command::Completions { shell } => cmd::completions(shell),
        Command::Man { dir } => cmd::write_manual(&dir),
        Command::Worker { device } => return run::worker::child::main(device),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            cmd::complain(&error);
            Exit::from(&error).into()
        }
    }
}
