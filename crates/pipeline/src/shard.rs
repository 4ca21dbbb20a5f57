//! Runs one part of the cases instead of all.

use config::Loaded;
use judge::count_contests;
use model::{CaseCost, CaseId, Filter, Gate, Num, Shard, Whole};
use records::shard::{ShardPart, TooMany, deal};
use serde_json::json;
use system::error::{Error, Result};

#[derive(Clone, Debug)]
pub struct AskedShard {
    pub part: ShardPart,
    /// The costs of cases in an earlier run. Empty if nobody gave them.
    pub took: Vec<CaseCost>,
}

/// Keeps the cases of one shard.
///
/// # Errors
/// Fails with a usage error if there are more shards than groups of cases that stay together.
pub(super) fn take(asked: &AskedShard, loaded: &mut Loaded) -> Result<Shard> {
    let ShardPart { number, of } = asked.part;
    let dealt = deal(&loaded.plan, of, &asked.took).map_err(|few| too_many(asked.part, &few))?;
    let whole = whole(loaded, dealt)?;
    let own = usize::try_from(number - 1).ok();
    let own = own.and_then(|at| whole.dealt.get(at)).map(Vec::as_slice);
    let filters = own
        .unwrap_or_default()
        .iter()
        .map(exactly)
        .collect::<Result<Vec<_>>>()?;
    let Loaded {
        plan,
        gates,
        targets,
        ..
    } = loaded;
    config::narrow(plan, gates, targets, filters);
    if let Some(pairing) = &mut plan.pairing {
        pairing.false_alarms = share(pairing.false_alarms, gates, &whole.gates);
    }
    Ok(Shard { number, of, whole })
}

/// Returns the chance of a false alarm for a shard. Each contest has the same chance as in the whole run.
fn share(whole: Num, own: &[Gate], all: &[Gate]) -> Num {
    Num(whole.0 * count_contests(own) as f64 / count_contests(all) as f64)
}

fn whole(loaded: &Loaded, dealt: Vec<Vec<CaseId>>) -> Result<Whole> {
    let accepted = config::load_acceptances(loaded)?;
    let (plan, gates, targets) = (&loaded.plan, &loaded.gates, &loaded.targets);
    let all = json!([plan, gates, targets, accepted, dealt]).to_string();
    let id = blake3::hash(all.as_bytes()).to_hex();
    Ok(Whole {
        id: id.chars().take(16).collect(),
        plan: plan.clone(),
        gates: gates.clone(),
        targets: targets.clone(),
        accepted,
        dealt,
    })
}

fn exactly(id: &CaseId) -> Result<Filter> {
    let filter = id.to_string().parse();
    filter.map_err(|bad| Error::usage(format!("{bad}")))
}

fn too_many(part: ShardPart, few: &TooMany) -> Error {
    let groups = few.groups;
    Error::usage(format!(
            "--shard {part}: there is work for {groups} shards at most, as the variants of a kernel at one shape stay together"
        ))
        .help(format!("use --shard N/{groups}, or fewer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::fixture;
    use model::Subject;

    /// Otherwise a shard would stop timing while the whole is still open, or the other way round.
    #[test]
    fn a_contest_has_the_same_chance_of_a_false_alarm_in_a_shard_as_in_the_whole() {
        let all = fixture::record_against_base().policy.gates;
        let own: Vec<Gate> = all
            .iter()
            .filter(|gate| match &gate.subject {
                Subject::Case(id) => id.shape == "small",
                Subject::Unit(_) => true,
            })
            .cloned()
            .collect();
        let each = |chance: f64, gates: &[Gate]| chance / count_contests(gates) as f64;
        assert!(count_contests(&own) < count_contests(&all));
        let of_shard = share(Num(0.01), &own, &all).0;
        assert!((each(of_shard, &own) / each(0.01, &all) - 1.0).abs() < 1e-12);
        assert!(of_shard < 0.01);
    }
}
