//! How Linux 2.4 reads a file that is a striped device: a process waits for one stripe after the other, and the
//! kernel reads ahead no more than its window, without knowing where the request or the chunk ends.

use std::collections::VecDeque;

/// A requested piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    pos: u64,
    token: u64,
    here: bool,
}

/// The pieces that a process waits for, and those read ahead.
#[derive(Clone, Debug)]
pub(super) struct Window {
    unit: u64,
    /// Pieces behind the one that is waited for.
    ahead: usize,
    overrun: bool,
    size: u64,
    /// The piece that the process needs, and the end of its request.
    need: u64,
    end: u64,
    pieces: VecDeque<Piece>,
}

/// Buffers for a window: pieces of earlier windows may be in flight in addition.
pub(super) fn buffers(ahead: usize) -> usize {
    4 * (ahead + 1)
}

impl Window {
    /// A window over a device of `size` bytes.
    pub(super) fn new(unit: u64, ahead: usize, overrun: bool, size: u64) -> Window {
        Window { unit, ahead, overrun, size, need: 0, end: 0, pieces: VecDeque::new() }
    }

    /// The process requests `len` bytes at `pos`. Pieces read ahead elsewhere are dropped.
    pub(super) fn ask(&mut self, pos: u64, len: u64) {
        (self.need, self.end) = (pos, pos + len);
        if self.pieces.front().is_some_and(|piece| piece.pos != pos) {
            self.pieces.clear();
        }
    }

    /// The piece with this token has arrived. Dropped pieces are ignored.
    pub(super) fn arrived(&mut self, token: u64) {
        if let Some(piece) = self.pieces.iter_mut().find(|piece| piece.token == token) {
            piece.here = true;
        }
    }

    /// Advances the process by one piece. Returns whether the piece has arrived.
    pub(super) fn step(&mut self) -> bool {
        let there = self.need < self.end && self.pieces.front().is_some_and(|piece| piece.here);
        if there {
            self.pieces.pop_front();
            self.need += self.unit;
        }
        there
    }

    /// Whether the process has all pieces that it requested.
    pub(super) fn is_complete(&self) -> bool {
        self.need >= self.end
    }

    /// Where the next piece is to be read, if one is.
    pub(super) fn next(&self) -> Option<u64> {
        let pos = self.pieces.back().map_or(self.need, |piece| piece.pos + self.unit);
        let wanted = self.pieces.len() <= self.ahead && pos + self.unit <= self.size;
        (wanted && (self.overrun || pos < self.end)).then_some(pos)
    }

    /// Bytes of a piece.
    pub(super) fn unit(&self) -> u64 {
        self.unit
    }

    /// The next piece is being read.
    pub(super) fn started(&mut self, pos: u64, token: u64) {
        self.pieces.push_back(Piece { pos, token, here: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(window: &mut Window, token: &mut u64) -> Vec<u64> {
        let mut started = Vec::new();
        while let Some(pos) = window.next() {
            window.started(pos, *token);
            started.push(pos);
            *token += 1;
        }
        started
    }

    #[test]
    fn one_more_is_read_ahead_past_the_end_too() {
        let (mut window, mut token) = (Window::new(10, 1, true, 1000), 0);
        window.ask(100, 20);
        assert_eq!(start(&mut window, &mut token), [100, 110]);
        window.arrived(1);
        assert!(!window.step());
        window.arrived(0);
        assert!(window.step() && !window.is_complete());
        assert_eq!(start(&mut window, &mut token), [120]);
        assert!(window.step() && window.is_complete() && !window.step());
        window.ask(500, 10);
        assert_eq!(start(&mut window, &mut token), [500, 510]);
        // The forgotten one changes nothing.
        window.arrived(2);
        assert!(!window.step());
        window.arrived(3);
        assert!(window.step() && window.is_complete());
        // Sequential requests find the pieces read ahead.
        window.ask(510, 10);
        assert_eq!(start(&mut window, &mut token), [520]);
        window.arrived(4);
        assert!(window.step() && window.is_complete());
    }

    #[test]
    fn without_overrun_it_stops_at_the_end_of_the_request_and_of_the_device() {
        let (mut window, mut token) = (Window::new(10, 3, false, 1000), 0);
        window.ask(100, 20);
        assert_eq!(start(&mut window, &mut token), [100, 110]);
        let (mut window, mut token) = (Window::new(10, 3, true, 1000), 0);
        window.ask(980, 20);
        assert_eq!(start(&mut window, &mut token), [980, 990]);
    }
}
