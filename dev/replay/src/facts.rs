//! What is known of a recorded configuration before it is timed.

use crate::Recorded;
use model::Arch;
use model::occupancy::{Demand, occupancy};
use search::{Point, Value};
use std::collections::HashMap;
use std::error::Error;

/// Figures of each configuration.
pub struct Facts(HashMap<Point, Vec<Option<f64>>>);

/// What a launch says without a build.
struct Launch {
    threads: u64,
    /// As the source declares it.
    shared_bytes: u64,
    blocks: u64,
    /// Threads times tiles, over the size of the problem: above 1 where they do not divide it.
    covered: f64,
}

impl Facts {
    /// Of a launch alone; the occupancy is the one that registers can only lower. `None` for a kernel that is not
    /// known here. On a GPU that is not, the occupancy is unknown.
    pub fn of_launch(recorded: &Recorded) -> Option<Self> {
        let arch = find_arch(recorded);
        let row = |point| {
            let launch = Launch::of(recorded, point)?;
            let mut row = launch.row();
            row.push(arch.and_then(|it| launch.occupancy(it, 0, launch.shared_bytes)));
            Some((point, row))
        };
        let rows = recorded.space.points().map(row);
        Some(Self(rows.collect::<Option<_>>()?))
    }

    /// The same, and registers, shared and spilled bytes and the occupancy that follows, as `features.py` wrote them:
    /// for the GPU's architecture, and those configurations that were built. `None` for a kernel that is not known here.
    ///
    /// # Errors
    /// The text is not what that script writes, or the GPU is not known here.
    pub fn of_build(recorded: &Recorded, text: &str) -> Result<Option<Self>, Box<dyn Error>> {
        let arch = find_arch(recorded).ok_or("the architecture of this GPU is not known")?;
        let mut built: HashMap<&str, [Option<u32>; 3]> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [key, of, figures @ ..] = fields.as_slice() else {
                return Err(format!("line {}: too short", at + 1).into());
            };
            let figures: Vec<Option<u32>> = figures.iter().map(|it| it.parse().ok()).collect();
            let figures: [Option<u32>; 3] = figures
                .try_into()
                .map_err(|_| format!("line {}: three figures are expected", at + 1))?;
            if format!("sm_{of}") == arch.to_string() {
                built.insert(key, figures);
            }
        }
        let row =
            |point| {
                let launch = Launch::of(recorded, point)?;
                let values = recorded.space.values(point);
                let values: Vec<String> = values.iter().map(|it| it.to_string()).collect();
                let built = built.get(values.join(",").as_str());
                let [registers, shared, spills] = built.copied().unwrap_or_default();
                let mut row = launch.row();
                row.extend([registers, shared, spills].map(|it| it.map(f64::from)));
                row.push(registers.zip(shared).and_then(|(registers, shared)| {
                    launch.occupancy(arch, registers, shared.into())
                }));
                Some((point, row))
            };
        let rows: Option<HashMap<_, _>> = recorded.space.points().map(row).collect();
        Ok(rows.map(Self))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Point, &[Option<f64>])> {
        self.0.iter().map(|(point, row)| (*point, row.as_slice()))
    }
}

fn find_arch(recorded: &Recorded) -> Option<Arch> {
    let device = recorded.recording.device.as_str();
    let known = [("A100", "sm_80"), ("A4000", "sm_86"), ("A6000", "sm_86")];
    let (_, arch) = known.iter().find(|(name, _)| device.contains(name))?;
    arch.parse().ok()
}

impl Launch {
    /// By the parameters' names in the benchmark hub. `None` where there are others.
    fn of(recorded: &Recorded, point: Point) -> Option<Self> {
        let values = recorded.space.values(point);
        let parameters = recorded.space.parameters();
        let get = |name: &str| {
            let at = parameters.iter().position(|it| it.name == name)?;
            match values.get(at) {
                Some(Value::Integer(value)) => u64::try_from(*value).ok(),
                _ => None,
            }
        };
        let size = |at: usize| recorded.recording.problem_size.get(at).copied();
        let [width, height] = [size(0)?, size(1)?];
        let [x, y] = [get("block_size_x")?, get("block_size_y")?];
        let [tile_x, tile_y] = [x * get("tile_size_x")?, y * get("tile_size_y")?];
        let across = width.div_ceil(tile_x);
        let down = height.div_ceil(tile_y);
        let shared_bytes = match get("use_shmem") {
            Some(1) => {
                let border = [get("filter_width")? / 2 * 2, get("filter_height")? / 2 * 2];
                let mut columns = tile_x + border[0];
                if get("use_padding")? == 1 && x % 32 != 0 && (columns - x) % 32 != 0 {
                    columns += 32u64.wrapping_sub(columns - x) & 31;
                }
                columns * (tile_y + border[1]) * 4
            }
            _ => 0,
        };
        Some(Self {
            threads: x * y,
            shared_bytes,
            blocks: across * down,
            covered: (across * tile_x * down * tile_y) as f64 / (width * height) as f64,
        })
    }

    fn row(&self) -> Vec<Option<f64>> {
        let counts = [self.threads, self.shared_bytes, self.blocks];
        let mut row: Vec<Option<f64>> = counts.iter().map(|it| Some(*it as f64)).collect();
        row.push(Some(self.covered));
        row
    }

    fn occupancy(&self, arch: Arch, registers: u32, shared_bytes: u64) -> Option<f64> {
        let demand = Demand {
            registers,
            shared_bytes,
            barriers: 1,
            threads_per_block: self.threads,
        };
        Some(occupancy(arch, demand)?.share())
    }
}
