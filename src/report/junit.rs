use verdict::model::*;
pub fn render(_: &Record, _: &Judgement) -> crate::error::Result<String> { Ok(String::new()) }
