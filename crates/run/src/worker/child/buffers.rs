//! Reuses memory for what is read from the device. Fresh memory costs more than the copy into it.

/// The most bytes of buffers that wait to be used again.
const MOST_BYTES: usize = 256 << 20;

#[derive(Default)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl Buffers {
    /// Returns `length` bytes with any content.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer.resize(length, 0);
        buffer
    }

    pub fn put(&mut self, buffer: Vec<u8>) {
        if self.bytes + buffer.capacity() <= MOST_BYTES {
            self.bytes += buffer.capacity();
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_round_and_too_much_of_it_is_let_go() {
        let mut buffers = Buffers::default();
        let first = buffers.take(100);
        let at = first.as_ptr();
        buffers.put(first);
        let again = buffers.take(40);
        assert_eq!((again.as_ptr(), again.len()), (at, 40));
        buffers.put(again);
        buffers.put(Vec::with_capacity(MOST_BYTES));
        assert_eq!(buffers.spare.len(), 1);
        assert!(buffers.bytes >= 100 && buffers.bytes <= MOST_BYTES);
    }
}
