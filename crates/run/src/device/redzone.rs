//! Guard regions around each buffer, so that a write past its end is seen where it does not fault.

use super::{Address, Device, Result};

/// Bytes before and after each buffer: a row of a tile or a stray block's writes land inside.
pub const BYTES: usize = 16 * 1024;

/// The bytes around a buffer. The two differ, so that a kernel that copies past both ends is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedzonePattern {
    /// NaN in every float type: what a kernel reads past an input shows in its output.
    NotANumber,
    /// Around what the kernel writes.
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

/// A buffer between two guards.
#[derive(Clone, Copy, Debug)]
pub struct Guarded {
    pub address: Address,
    pub bytes: usize,
    /// On each side.
    guard: usize,
    pattern: RedzonePattern,
}

impl Guarded {
    pub fn alloc(
        device: &mut dyn Device,
        name: &str,
        bytes: usize,
        pattern: RedzonePattern,
    ) -> Result<Self> {
        let guard = device.guard();
        let base = device.alloc(name, guard + bytes + guard)?;
        let guarded = Self {
            address: base + guard as u64,
            bytes,
            guard,
            pattern,
        };
        if guard > 0 {
            device.fill(base, &[pattern.byte()], guard)?;
            device.fill(guarded.end(), &[pattern.byte()], guard)?;
        }
        Ok(guarded)
    }

    /// At the address that it had in another process; others of that process's allocations are around it.
    pub fn placed(at: Address, bytes: usize) -> Self {
        Self {
            address: at,
            bytes,
            guard: 0,
            pattern: RedzonePattern::Mark,
        }
    }

    fn end(&self) -> Address {
        self.address + self.bytes as u64
    }

    /// Where the guards were written to, in words, or `None`.
    pub fn overrun(&self, device: &mut dyn Device) -> Result<Option<String>> {
        if self.guard == 0 {
            return Ok(None);
        }
        let mut guard = vec![0; self.guard];
        device.read(self.end(), &mut guard)?;
        if let Some(at) = guard.iter().position(|&byte| byte != self.pattern.byte()) {
            return Ok(Some(format!("{at} bytes past its end")));
        }
        device.read(self.address - self.guard as u64, &mut guard)?;
        let before = guard.iter().rposition(|&byte| byte != self.pattern.byte());
        Ok(before.map(|at| format!("{} bytes before its start", self.guard - at)))
    }
}
