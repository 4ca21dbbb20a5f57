//! What is known of a recorded configuration before it is timed.

use crate::Recorded;
use search::{Point, Value};
use std::collections::HashMap;
use verdict::model::Arch;
use verdict::occupancy::{Demand, occupancy};

/// Figures of each configuration.
pub struct Facts(HashMap<Point, Vec<Option<f64>>>);

impl Facts {
    /// What a launch says without a build: threads of a block, shared memory as the source declares it, blocks of the
    /// grid by which a problem is covered, threads beyond it, and the occupancy that registers can only lower.
    /// `None` for a kernel that is not known here; no occupancy on a GPU that is not.
    pub fn of_launch(recorded: &Recorded) -> Option<Self> {
        let arch = match recorded.recording.device.as_str() {
            it if it.contains("A100") => "sm_80".parse::<Arch>().ok(),
            it if it.contains("A4000") || it.contains("A6000") => "sm_86".parse().ok(),
            _ => None,
        };
        let row = |point| {
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
            let (x, y) = (get("block_size_x")?, get("block_size_y")?);
            let tile = [x * get("tile_size_x")?, y * get("tile_size_y")?];
            let blocks = [size(0)?.div_ceil(tile[0]), size(1)?.div_ceil(tile[1])];
            let covered = (blocks[0] * tile[0] * blocks[1] * tile[1]) as f64;
            let shared_bytes = match get("use_shmem") {
                Some(1) => {
                    let border = [get("filter_width")? / 2 * 2, get("filter_height")? / 2 * 2];
                    let mut width = tile[0] + border[0];
                    if get("use_padding")? == 1 && x % 32 != 0 && (width - x) % 32 != 0 {
                        width += 32u64.wrapping_sub(width - x) & 31;
                    }
                    width * (tile[1] + border[1]) * 4
                }
                _ => 0,
            };
            let demand = Demand {
                registers: 0,
                shared_bytes,
                barriers: 1,
                threads_per_block: x * y,
            };
            Some(vec![
                Some((x * y) as f64),
                Some(shared_bytes as f64),
                Some((blocks[0] * blocks[1]) as f64),
                Some(covered / (size(0)? * size(1)?) as f64),
                arch.and_then(|arch| Some(occupancy(arch, demand)?.share())),
            ])
        };
        let points = recorded.space.points();
        let rows = points.map(|point| Some((point, row(point)?)));
        Some(Self(rows.collect::<Option<_>>()?))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Point, &[Option<f64>])> {
        self.0.iter().map(|(point, row)| (*point, row.as_slice()))
    }
}
