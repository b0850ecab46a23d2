//! After warm-up, no I/O through layers allocates: parts and their lists are reused.

#[path = "../../../platter-disk/tests/allocations/counting.rs"]
mod counting;
mod devices;
#[path = "../../../platter-disk/tests/allocations/styles.rs"]
mod styles;

use styles::Style;

/// Rounds of I/Os that are measured together for each style, and how many rounds may still allocate because
/// lists grow.
const ROUNDS: usize = 40;
const PATIENCE: usize = 12;

#[test]
fn no_io_allocates_once_warm() {
    for device in devices::all() {
        // The error of a call names the member in a string, which allocates; the fault of a bio does not.
        for style in
            Style::ALL.into_iter().filter(|style| matches!(style, Style::Polled) || !device.is_flawed)
        {
            let mut caller = style.caller(&device);
            let mut counts = Vec::with_capacity(PATIENCE);
            while !counts.ends_with(&[0]) {
                assert!(counts.len() < PATIENCE, "{} {style:?}: in {ROUNDS} rounds: {counts:?}", device.name);
                let before = counting::allocations();
                (0..ROUNDS).for_each(|_| caller.round());
                counts.push(counting::allocations() - before);
            }
        }
    }
}
