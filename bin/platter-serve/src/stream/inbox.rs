//! Bytes that have been received and not yet used.

use super::copies::Copies;

/// Size of the memory, in bytes. It holds a batch of requests with small payloads; large payloads pass it by.
pub(crate) const BYTES: usize = 128 << 10;

pub(crate) struct Inbox {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// An inbox that holds `first` already.
    pub(crate) fn new(first: &[u8]) -> Inbox {
        // Zeroed memory of this size comes from the system page by page, so an idle client has little of it.
        let mut memory = vec![0; BYTES.max(first.len())];
        memory[..first.len()].copy_from_slice(first);
        Inbox { memory, start: 0, end: first.len() }
    }

    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room for at most `most` more bytes.
    #[inline]
    pub(crate) fn space(&mut self, most: usize, copies: &mut Copies) -> &mut [u8] {
        if self.start > 0 {
            // A part of a header, or what waits for a free place.
            copies.move_to_front(&mut self.memory, self.start, self.end);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let end = self.memory.len().min(self.end.saturating_add(most));
        &mut self.memory[self.end..end]
    }

    /// The first bytes of the space have been filled.
    #[inline]
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_whatever_is_left_over() {
        let (mut inbox, mut copies) = (Inbox::new(b"abc"), Copies::default());
        assert_eq!(inbox.unread(), b"abc");
        inbox.consume(2);
        inbox.space(3, &mut copies).copy_from_slice(b"def");
        inbox.filled(2);
        assert_eq!(inbox.unread(), b"cde");
        inbox.consume(3);
        assert!(inbox.unread().is_empty());
        assert_eq!(inbox.space(usize::MAX, &mut copies).len(), BYTES);
        inbox.filled(BYTES);
        assert!(inbox.space(1, &mut copies).is_empty());
        assert_eq!(copies.bytes(), 1);
    }
}
