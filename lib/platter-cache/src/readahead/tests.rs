//! What accesses are. Policies are tested with the simulator, and at the limits of their parameters by those that
//! register them.

use super::*;

#[test]
fn accesses_count_the_pages_that_they_touch() {
    let of = |pos, len| {
        let access = Access::new(pos, len);
        (access.first, access.pages, access.offset)
    };
    assert_eq!(of(0, 4096), (0, 1, 0));
    assert_eq!(of(4095, 2), (0, 2, 4095));
    assert_eq!(of(4608, 4608), (1, 2, 512));
    assert_eq!(of(8192, 0), (2, 0, 0));
    assert_eq!(of(0, u64::MAX), (0, u32::MAX, 0));
    let access = Access::new(4 * PAGE, 3 * PAGE);
    assert_eq!((access.end(), access.rest(5), access.rest(7), access.rest(99)), (7, 2, 0, 0));
}
