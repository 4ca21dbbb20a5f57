//! The hardware's counts of each launch in a file: a line for each launch, a column for each reading. From
//! two exports of one ncu report: the raw page, and the sums of `instructions.py`.

use crate::gpu::Result;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Readings of one launch, by the name of the metric or [`Instructions::column`].
pub type Row = BTreeMap<String, u64>;

/// Instructions of one kind, each of whose wavefronts ncu works out from the addresses that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    Loads,
    MatrixLoads,
    /// Stores to shared memory, `stmatrix` among them.
    Stores,
}

impl Instructions {
    pub fn column(self) -> &'static str {
        match self {
            Instructions::Loads => "wavefronts of LDS",
            Instructions::MatrixLoads => "wavefronts of LDSM",
            Instructions::Stores => "wavefronts of STS and STSM",
        }
    }

    fn of(opcode: &str) -> Option<Instructions> {
        match opcode {
            "LDS" => Some(Instructions::Loads),
            "LDSM" => Some(Instructions::MatrixLoads),
            "STS" | "STSM" => Some(Instructions::Stores),
            _ => None,
        }
    }
}

/// The readings of one launch by ncu.
pub struct Launch {
    pub kernel: String,
    pub row: Row,
}

/// Reads the launches of a CSV of ncu (`--csv --page raw --print-units base`), in order.
pub fn launches(csv: &str) -> Result<Vec<Launch>> {
    let fields = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_start_matches('"').trim_end_matches('"');
        inner.split("\",\"").map(str::to_owned).collect()
    };
    let mut lines = csv.lines().skip_while(|l| !l.starts_with("\"ID\""));
    let header = fields(lines.next().ok_or("no table of ncu in the file")?);
    // The second line names the units.
    Ok(lines
        .skip(1)
        .filter(|l| l.starts_with('"'))
        .map(|l| {
            let fields = fields(l);
            let named = || header.iter().zip(&fields);
            let kernel = named().find(|(name, _)| *name == "Kernel Name");
            let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
            Launch {
                kernel: kernel.map_or("?".to_owned(), |(_, k)| k.clone()),
                row: named()
                    .filter_map(|(name, text)| Some((name.clone(), number(text)? as u64)))
                    .collect(),
            }
        })
        .collect())
}

/// Adds lines of `instructions.py`: number of the launch, opcode, wavefronts, between tabs. A launch that
/// it read has all columns.
pub fn add_instructions(launches: &mut [Launch], text: &str) -> Result<()> {
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (Some(number), Some(opcode), Some(wavefronts), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(format!("not three fields: {line}").into());
        };
        let launch = launches
            .get_mut(number.parse::<usize>()?)
            .ok_or_else(|| format!("no launch {number}"))?;
        for kind in [
            Instructions::Loads,
            Instructions::MatrixLoads,
            Instructions::Stores,
        ] {
            launch.row.entry(kind.column().to_owned()).or_default();
        }
        let family = opcode.split('.').next().unwrap_or_default();
        if let Some(kind) = Instructions::of(family) {
            *launch.row.entry(kind.column().to_owned()).or_default() +=
                wavefronts.parse::<u64>()?;
        }
    }
    Ok(())
}

/// Returns the text of the table: a head with the names of `columns`, then a line for each case. `-` stands for a
/// value that was not read.
pub fn written(columns: &[&str], rows: &[(String, Row)]) -> String {
    let mut text = format!("case\t{}\n", columns.join("\t"));
    for (case, row) in rows {
        text.push_str(case);
        for column in columns {
            match row.get(*column) {
                Some(value) => write!(text, "\t{value}").unwrap_or_default(),
                None => text.push_str("\t-"),
            }
        }
        text.push('\n');
    }
    text
}

/// Reads a table from its text.
pub fn read(text: &str) -> Result<Vec<(String, Row)>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().ok_or("an empty table")?.split('\t').collect();
    lines
        .map(|line| {
            let mut fields = line.split('\t');
            let case = fields.next().unwrap_or_default().to_owned();
            let mut row = Row::new();
            for name in head.iter().skip(1) {
                match fields.next() {
                    Some("-") => {}
                    Some(value) => {
                        row.insert((*name).to_owned(), value.parse()?);
                    }
                    None => return Err(format!("{case}: no {name}").into()),
                }
            }
            match fields.next() {
                None => Ok((case, row)),
                Some(_) => Err(format!("{case}: more fields than names").into()),
            }
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const CSV: &str = "==PROF== Connected\n\"ID\",\"Kernel Name\",\"a.sum\",\"b.sum\"\n\"\",\"\",\"inst\",\"sector\"\n\"0\",\"k(int)\",\"1,024\",\"3\"\n";

    #[test]
    fn a_report_of_ncu() {
        let mut all = launches(CSV).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].kernel, "k(int)");
        assert_eq!(all[0].row.get("a.sum"), Some(&1024));
        assert_eq!(all[0].row.get("c.sum"), None);
        assert!(launches("nothing").is_err());
        add_instructions(
            &mut all,
            "0\tLDS.128\t7\n0\tLDS\t1\n0\tSTSM.16\t4\n0\tLDGSTS\t9\n",
        )
        .unwrap();
        let of = |kind: Instructions| all[0].row.get(kind.column()).copied();
        assert_eq!(of(Instructions::Loads), Some(8));
        assert_eq!(of(Instructions::MatrixLoads), Some(0));
        assert_eq!(of(Instructions::Stores), Some(4));
        assert!(add_instructions(&mut all, "1\tLDS\t7").is_err());
        assert!(add_instructions(&mut all, "0\tLDS").is_err());
    }

    #[test]
    fn a_table_comes_back_as_it_was() {
        let row = |pairs: &[(&str, u64)]| pairs.iter().map(|(n, v)| ((*n).into(), *v)).collect();
        let rows = vec![
            ("one".to_owned(), row(&[("a", 1), ("b", 2)])),
            ("two".to_owned(), row(&[("b", 3)])),
        ];
        let text = written(&["a", "b"], &rows);
        assert_eq!(text, "case\ta\tb\none\t1\t2\ntwo\t-\t3\n");
        assert_eq!(read(&text).unwrap(), rows);
        for broken in ["", "case\ta\none", "case\ta\none\t1\t2", "case\ta\none\tx"] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
