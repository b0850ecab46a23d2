//! A put-back defect is found by what the suites measure. It is active in the whole process, so this test has one of its
//! own.

// The rig is shared with other suites, which use more of it.
#[path = "virtual_time/mod.rs"]
mod virtual_time;

use platter_block::defect::{self, Defect};
use platter_serve::qos::DeviceLimits;

#[test]
fn without_weights_clients_get_equal_parts() {
    const { assert!(defect::AVAILABLE, "the tests are built with the feature") };
    let limits = DeviceLimits { depth: 4, ..DeviceLimits::default() };
    let part = || virtual_time::share_of_first(limits, [32, 32], [4096, 4096]);
    assert!((2.85..=3.15).contains(&part()));
    defect::set(Defect::ClientWeightsIgnored, true);
    let wrong = part();
    defect::set(Defect::ClientWeightsIgnored, false);
    assert!((0.95..=1.05).contains(&wrong), "1:{wrong:.3}");
}
