use verdict::model::*;
pub struct Options { pub color: bool, pub width: usize }
pub fn render(r: &Record, j: &Judgement, _: Options) -> String {
    let mut s = String::new();
    for v in &j.verdicts { if v.outcome != Outcome::Pass { s += &format!("{} {} {} : {}\n", v.outcome, v.subject, v.gate, v.reason); } }
    for o in Outcome::ALL { s += &format!("{o} {} ", j.count(o)); }
    s + &format!("\n{:?} {:?}\n", j.conclusion, r.costs)
}
