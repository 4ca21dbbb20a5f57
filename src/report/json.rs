use verdict::model::*;
pub fn render(_: &Record, j: &Judgement) -> crate::error::Result<String> { Ok(serde_json::to_string_pretty(j).unwrap()) }
