//! Memory aligned for direct I/O, without unsafe code: a larger vector, used from its first aligned byte on.

/// A zeroed buffer whose start is a multiple of an alignment.
#[derive(Debug)]
pub(super) struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// `len` bytes at a multiple of `align`, which must be a power of two.
    pub(super) fn new(len: usize, align: usize) -> Self {
        let bytes = vec![0; len + align - 1];
        // For bytes, `align_offset` always returns the true distance at run time.
        let start = bytes.as_ptr().align_offset(align);
        AlignedBuf { bytes, start, len }
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_aligned_and_has_its_length() {
        for align in [1, 512, 4096, 65536] {
            for len in [1, 4096, 100_000] {
                let mut buf = AlignedBuf::new(len, align);
                assert_eq!((buf.as_mut().as_ptr() as usize % align, buf.as_mut().len()), (0, len));
            }
        }
    }
}
