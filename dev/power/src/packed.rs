//! Reads and writes recordings: JSON in gzip, with a column of differences for each quantity of a process. Times of
//! one kernel differ by a few ticks, so most of a column is a handful of short numbers.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::recording::{Block, Bound, Change, Contest, Order, Process, Recording, Sides};

pub const SCHEMA: &str = "gatekeeper.recording/1";

/// The most that a file may expand to; a recording takes a few megabytes.
const MOST_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("schema {found:?}; this program reads {SCHEMA:?}")]
    Schema { found: String },
    #[error("process {process} of {contest}: {reason}")]
    Columns {
        contest: String,
        process: usize,
        reason: &'static str,
    },
    #[error("not a JSON document of schema {SCHEMA:?}")]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    device: String,
    driver: String,
    date: String,
    tick_ns: f64,
    contests: Vec<Columns>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Columns {
    kernel: String,
    bound: Bound,
    class_us: u32,
    change: Change,
    launches_per_sample: u32,
    processes: Vec<Column>,
}

/// The samples of a process. Each number is the difference to the one before it in its column.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    /// One letter for each block: A for ABBA, B for BAAB.
    orders: String,
    /// Two numbers for each block, as in `head`.
    base: Vec<i64>,
    head: Vec<i64>,
    /// One number for each block, or `None` if the clock was not measured.
    sm_mhz: Option<Vec<i64>>,
    single: Sides<Vec<i64>>,
    device_us: Option<u64>,
}

/// Writes a recording. The same recording gives the same bytes, because gzip's header holds no time.
///
/// # Errors
/// If the recording cannot be packed, or `to` cannot be written.
pub fn write(recording: &Recording, to: impl Write) -> Result<(), Unreadable> {
    let mut gzip = GzEncoder::new(to, Compression::best());
    serde_json::to_writer(&mut gzip, &pack(recording)?)?;
    gzip.finish().map_err(serde_json::Error::io)?;
    Ok(())
}

pub fn read(from: impl Read) -> Result<Recording, Unreadable> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let mut text = Vec::new();
    let mut gzip = GzDecoder::new(from).take(MOST_BYTES);
    gzip.read_to_end(&mut text).map_err(serde_json::Error::io)?;
    let Head { schema } = serde_json::from_slice(&text)?;
    if schema != SCHEMA {
        return Err(Unreadable::Schema { found: schema });
    }
    unpack(serde_json::from_slice(&text)?)
}

fn pack(recording: &Recording) -> Result<File, Unreadable> {
    let contests = recording.contests.iter().map(|contest| {
        let processes = contest
            .processes
            .iter()
            .enumerate()
            .map(|(index, process)| {
                column(process).map_err(|reason| Unreadable::Columns {
                    contest: contest.title(),
                    process: index,
                    reason,
                })
            });
        Ok(Columns {
            kernel: contest.kernel.clone(),
            bound: contest.bound,
            class_us: contest.class_us,
            change: contest.change,
            launches_per_sample: contest.launches_per_sample,
            processes: processes.collect::<Result<_, Unreadable>>()?,
        })
    });
    Ok(File {
        schema: SCHEMA.to_owned(),
        device: recording.device.clone(),
        driver: recording.driver.clone(),
        date: recording.date.clone(),
        tick_ns: recording.tick_ns,
        contests: contests.collect::<Result<_, Unreadable>>()?,
    })
}

fn column(process: &Process) -> Result<Column, &'static str> {
    let blocks = || process.blocks.iter();
    let clocks: Option<Vec<u64>> = blocks().map(|block| block.sm_mhz.map(u64::from)).collect();
    if clocks.is_none() && blocks().any(|block| block.sm_mhz.is_some()) {
        return Err("some of its blocks have a clock and some have none");
    }
    Ok(Column {
        orders: blocks()
            .map(|block| match block.order {
                Order::Abba => 'A',
                Order::Baab => 'B',
            })
            .collect(),
        base: differences(blocks().flat_map(|block| block.ns.base))?,
        head: differences(blocks().flat_map(|block| block.ns.head))?,
        sm_mhz: clocks.map(differences).transpose()?,
        single: Sides {
            base: differences(process.single.base.iter().copied())?,
            head: differences(process.single.head.iter().copied())?,
        },
        device_us: process.device_us,
    })
}

fn unpack(file: File) -> Result<Recording, Unreadable> {
    let contests = file.contests.into_iter().map(|columns| {
        let mut contest = Contest {
            kernel: columns.kernel,
            bound: columns.bound,
            class_us: columns.class_us,
            change: columns.change,
            launches_per_sample: columns.launches_per_sample,
            processes: Vec::with_capacity(columns.processes.len()),
        };
        for (index, column) in columns.processes.iter().enumerate() {
            let process = process(column).map_err(|reason| Unreadable::Columns {
                contest: contest.title(),
                process: index,
                reason,
            })?;
            contest.processes.push(process);
        }
        Ok(contest)
    });
    Ok(Recording {
        device: file.device,
        driver: file.driver,
        date: file.date,
        tick_ns: file.tick_ns,
        contests: contests.collect::<Result<_, Unreadable>>()?,
    })
}

fn process(column: &Column) -> Result<Process, &'static str> {
    let (base, head) = (pairs(&column.base)?, pairs(&column.head)?);
    let orders: Vec<Order> = column
        .orders
        .chars()
        .map(|letter| match letter {
            'A' => Ok(Order::Abba),
            'B' => Ok(Order::Baab),
            _ => Err("an order that is neither A nor B"),
        })
        .collect::<Result<_, _>>()?;
    let clocks: Vec<Option<u32>> = match &column.sm_mhz {
        None => vec![None; orders.len()],
        Some(clocks) => sums(clocks)?
            .into_iter()
            .map(|mhz| {
                u32::try_from(mhz)
                    .map(Some)
                    .map_err(|_| "a clock beyond range")
            })
            .collect::<Result<_, _>>()?,
    };
    if [base.len(), head.len(), clocks.len()] != [orders.len(); 3] {
        return Err("columns of different lengths");
    }
    let blocks = orders.into_iter().zip(base).zip(head).zip(clocks);
    Ok(Process {
        blocks: blocks
            .map(|(((order, base), head), sm_mhz)| Block {
                order,
                ns: Sides { base, head },
                sm_mhz,
            })
            .collect(),
        single: Sides {
            base: sums(&column.single.base)?,
            head: sums(&column.single.head)?,
        },
        device_us: column.device_us,
    })
}

fn differences(values: impl IntoIterator<Item = u64>) -> Result<Vec<i64>, &'static str> {
    let mut last = 0;
    let step = |value: u64| {
        let value = i64::try_from(value).map_err(|_| "a time beyond 292 years")?;
        let difference = value - last;
        last = value;
        Ok(difference)
    };
    values.into_iter().map(step).collect()
}

fn sums(differences: &[i64]) -> Result<Vec<u64>, &'static str> {
    let mut last = 0i64;
    let add = |difference: &i64| {
        last = last.checked_add(*difference).ok_or("a sum beyond range")?;
        u64::try_from(last).map_err(|_| "a number below zero")
    };
    differences.iter().map(add).collect()
}

fn pairs(differences: &[i64]) -> Result<Vec<[u64; 2]>, &'static str> {
    let values = sums(differences)?;
    let (pairs, rest) = values.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.to_vec())
        .ok_or("half a block")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recording(processes: Vec<Process>) -> Recording {
        Recording {
            device: "NVIDIA H100 80GB HBM3".into(),
            driver: "580.159.04".into(),
            date: "2026-11-21".into(),
            tick_ns: 32.0,
            contests: vec![Contest {
                kernel: "compute".into(),
                bound: Bound::Compute,
                class_us: 20,
                change: Change::Slower(0.01),
                launches_per_sample: 10,
                processes,
            }],
        }
    }

    fn text(json: &str) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(json.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    fn reread(file: &File) -> Result<Recording, Unreadable> {
        read(text(&serde_json::to_string(file).unwrap()).as_slice())
    }

    /// The format is a promise: files in git stay readable.
    #[test]
    fn golden() {
        let blocks = [Order::Abba, Order::Baab].map(|order| Block {
            order,
            ns: Sides {
                base: [200_000, 200_032],
                head: [200_064, 199_968],
            },
            sm_mhz: Some(1980),
        });
        let single = Sides {
            base: vec![20_000, 20_032],
            head: vec![],
        };
        let whole = recording(vec![
            Process {
                blocks: blocks.to_vec(),
                single,
                device_us: Some(41),
            },
            Process::default(),
        ]);
        let json = r#"{"schema":"gatekeeper.recording/1","device":"NVIDIA H100 80GB HBM3","driver":"580.159.04","date":"2026-11-21","tick_ns":32.0,"contests":[{"kernel":"compute","bound":"compute","class_us":20,"change":{"slower":0.01},"launches_per_sample":10,"processes":[{"orders":"AB","base":[200000,32,-32,32],"head":[200064,-96,96,-96],"sm_mhz":[1980,0],"single":{"base":[20000,32],"head":[]},"device_us":41},{"orders":"","base":[],"head":[],"sm_mhz":[],"single":{"base":[],"head":[]},"device_us":null}]}]}"#;
        assert_eq!(serde_json::to_string(&pack(&whole).unwrap()).unwrap(), json);
        assert_eq!(read(text(json).as_slice()).unwrap(), whole);
    }

    #[test]
    fn another_schema_is_named() {
        let error = read(text(r#"{"schema":"gatekeeper.recording/2","new":1}"#).as_slice());
        assert!(matches!(error, Err(Unreadable::Schema { found }) if found.ends_with("/2")));
    }

    #[test]
    fn refuses_files_that_are_no_recordings() {
        assert!(read(&b"not gzip"[..]).is_err());
        assert!(read(text("{}").as_slice()).is_err());
        let mut whole = Vec::new();
        write(&recording(vec![Process::default()]), &mut whole).unwrap();
        assert!(read(&whole[..whole.len() - 9]).is_err(), "cut off");
    }

    #[test]
    fn columns_that_do_not_fit() {
        let block = Block {
            order: Order::Abba,
            ns: Sides::default(),
            sm_mhz: Some(1),
        };
        let whole = recording(vec![Process {
            blocks: vec![block],
            ..Process::default()
        }]);
        let broken: [fn(&mut Column); 6] = [
            |column| column.orders = "C".into(),
            |column| column.orders = "AB".into(),
            |column| column.base = vec![1],
            |column| column.head = vec![1, -2],
            |column| column.head = vec![i64::MAX, 1],
            |column| column.sm_mhz = Some(vec![1 << 40]),
        ];
        for breaks in broken {
            let mut file = pack(&whole).unwrap();
            assert!(reread(&file).is_ok());
            breaks(&mut file.contests[0].processes[0]);
            assert!(matches!(reread(&file), Err(Unreadable::Columns { .. })));
        }
        let mixed = Block {
            sm_mhz: None,
            ..block
        };
        let whole = recording(vec![Process {
            blocks: vec![block, mixed],
            ..Process::default()
        }]);
        assert!(write(&whole, Vec::new()).is_err());
    }

    fn process_strategy() -> impl Strategy<Value = Process> {
        let ns = || 0u64..1 << 50;
        let block = (any::<bool>(), ns(), ns(), ns(), ns(), 0u32..4000);
        let single = || prop::collection::vec(ns(), 0..5);
        (
            prop::collection::vec(block, 0..6),
            single(),
            single(),
            any::<bool>(),
        )
            .prop_map(|(blocks, base, head, clocked)| Process {
                blocks: blocks
                    .into_iter()
                    .map(|(abba, a, b, c, d, mhz)| Block {
                        order: if abba { Order::Abba } else { Order::Baab },
                        ns: Sides {
                            base: [a, b],
                            head: [c, d],
                        },
                        sm_mhz: clocked.then_some(mhz),
                    })
                    .collect(),
                single: Sides { base, head },
                device_us: clocked.then_some(7),
            })
    }

    proptest! {
        #[test]
        fn reads_back_written_data(processes in prop::collection::vec(process_strategy(), 0..4)) {
            let whole = recording(processes);
            let mut bytes = Vec::new();
            write(&whole, &mut bytes).unwrap();
            prop_assert_eq!(read(bytes.as_slice()).unwrap(), whole);
        }
    }
}
