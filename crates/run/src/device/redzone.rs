//! Places guard regions around each buffer, so that a write past its end is found even if it does not fault.

use super::{Address, Device, Result};

/// The bytes before and after each buffer. A row of a tile or the writes of a stray block end inside them.
pub const BYTES: usize = 16 * 1024;

/// The bytes around a buffer. The two differ, so that a kernel that copies past both ends is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedzonePattern {
    /// NaN in every float type, so that what a kernel reads past an input shows in its output.
    NotANumber,
    /// Guards around what the kernel writes.
    Mark,
}

impl RedzonePattern {
    fn byte(self) -> u8 {
        match self {
            Self::NotANumber => 0xff,
            Self::Mark => 0xa5,
        }
    }
}

/// A buffer with a guard on each side.
#[derive(Clone, Copy, Debug)]
pub struct Guarded {
    pub address: Address,
    pub bytes: usize,
    /// The number of guarded bytes before the buffer and after it.
    before: usize,
    behind: usize,
    pattern: RedzonePattern,
}

impl Guarded {
    /// Allocates a buffer that has `ahead` bytes of its allocation before it: they are guarded by every device.
    pub fn alloc(
        device: &mut dyn Device,
        name: &str,
        (ahead, bytes): (usize, usize),
        pattern: RedzonePattern,
    ) -> Result<Self> {
        let (before, behind) = (device.guard() + ahead, device.guard());
        let base = device.alloc(name, before + bytes + behind)?;
        let guarded = Self {
            address: base + before as u64,
            bytes,
            before,
            behind,
            pattern,
        };
        for (at, guard) in [(base, before), (guarded.end(), behind)] {
            if guard > 0 {
                device.fill(at, &[pattern.byte()], guard)?;
            }
        }
        Ok(guarded)
    }

    /// Describes a buffer at the address that it had in another process. The allocations of that process are around it,
    /// and no guards.
    pub fn placed(at: Address, bytes: usize) -> Self {
        Self {
            address: at,
            bytes,
            before: 0,
            behind: 0,
            pattern: RedzonePattern::Mark,
        }
    }

    fn end(&self) -> Address {
        self.address + self.bytes as u64
    }

    /// Returns in words where the guards were overwritten, or `None` if they are intact.
    pub fn overrun(&self, device: &mut dyn Device) -> Result<Option<String>> {
        let mut read = |from: Address, bytes: usize| {
            let mut guard = vec![0; bytes];
            if bytes > 0 {
                device.read(from, &mut guard)?;
            }
            Ok(guard)
        };
        let is_written = |byte: &u8| *byte != self.pattern.byte();
        let behind = read(self.end(), self.behind)?;
        if let Some(at) = behind.iter().position(is_written) {
            return Ok(Some(format!("{at} bytes past its end")));
        }
        let before = read(self.address - self.before as u64, self.before)?;
        let at = before.iter().rposition(is_written);
        Ok(at.map(|at| format!("{} bytes before its start", self.before - at)))
    }
}
