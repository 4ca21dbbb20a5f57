use verdict::model::*;
pub fn metric(_: Metric, v: f64) -> String { v.to_string() }
