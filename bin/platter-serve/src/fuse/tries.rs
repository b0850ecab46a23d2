//! When to look for a request.

/// Looks in a row that find nothing before they are made less often, and how many occasions are then let pass.
const MANY: u32 = 16;

/// Whether to look for a request without having been told that there is one. Such a look finds many requests at once, or
/// costs a system call for nothing.
#[derive(Default)]
pub(super) struct Tries {
    /// The next look is not one of these: there seems to be a request.
    expected: bool,
    misses: u32,
    /// Occasions to let pass before the next look.
    pause: u32,
}

impl Tries {
    /// Whether to look now.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.pause = self.pause.saturating_sub(1);
        self.expected || self.pause == 0
    }

    /// Takes note of what a look has found.
    #[inline]
    pub(super) fn tried(&mut self, found: bool) {
        if std::mem::take(&mut self.expected) {
            return;
        }
        self.misses = if found { 0 } else { self.misses + 1 };
        self.pause = if self.misses > MANY { MANY } else { 0 };
    }

    /// There seems to be a request.
    pub(super) fn expect(&mut self) {
        self.expected = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_find_nothing_become_rare_until_one_finds_something() {
        let mut tries = Tries::default();
        let mut look = |occasions: u32, finds: bool| {
            let mut looks = 0;
            for _ in 0..occasions {
                if tries.is_due() {
                    looks += 1;
                    tries.tried(finds);
                }
            }
            looks
        };
        assert_eq!(look(17, false), 17);
        assert_eq!(look(32, false), 2);
        assert_eq!(look(16, true), 1);
        assert_eq!(look(16, true), 16);
    }

    #[test]
    fn an_expected_request_is_looked_for_at_once_and_tells_nothing_about_others() {
        let mut tries = Tries::default();
        (0..=MANY).for_each(|_| tries.tried(false));
        assert!(!tries.is_due());
        tries.expect();
        assert!(tries.is_due());
        tries.tried(true);
        assert!(!tries.is_due());
    }
}
