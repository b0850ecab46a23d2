//! Start-time fair queueing of one waiting request per flow.

use std::collections::BTreeMap;

/// Bytes that a request counts as at least: a flush and a small read occupy a device too.
pub const MIN_COST_BYTES: u64 = 4096;

/// Binary places of a tag below a byte, so that weights divide exactly enough.
const FRACTION: u32 = 20;

/// A virtual time: bytes of a flow of weight 1, with [`FRACTION`] binary places.
pub(super) type Tag = u128;

/// The order of the requests that wait: by start tag, then by flow.
#[derive(Default)]
pub(super) struct Order {
    /// The start tag of the request that was started last.
    now: Tag,
    waiting: BTreeMap<(Tag, u64), u64>,
}

/// A flow's own part: where its next request begins.
#[derive(Default)]
pub(super) struct Flow {
    finish: Tag,
    /// Of the request that waits.
    start: Option<Tag>,
}

impl Order {
    /// Lets a request of `bytes` wait. The flow has none that waits.
    pub(super) fn push(&mut self, id: u64, flow: &mut Flow, bytes: u64) {
        let start = flow.finish.max(self.now);
        flow.start = Some(start);
        self.waiting.insert((start, id), bytes.max(MIN_COST_BYTES));
    }

    /// The flow whose request is next.
    pub(super) fn first(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|((_, id), _)| *id)
    }

    /// Starts the request of the flow, which is one that waits.
    pub(super) fn start(&mut self, id: u64, flow: &mut Flow, weight: u32) {
        let Some(start) = flow.start.take() else { return };
        if let Some(bytes) = self.waiting.remove(&(start, id)) {
            self.now = start;
            flow.finish = start + (u128::from(bytes) << FRACTION) / u128::from(weight.max(1));
        }
    }

    /// Takes the flow's request back.
    pub(super) fn withdraw(&mut self, id: u64, flow: &mut Flow) {
        if let Some(start) = flow.start.take() {
            self.waiting.remove(&(start, id));
        }
    }

    /// The number of requests before that of the flow, and their bytes.
    pub(super) fn ahead(&self, id: u64, flow: &Flow) -> (u64, u64) {
        let Some(start) = flow.start else { return (0, 0) };
        let before = self.waiting.range(..(start, id));
        before.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlogged_flows_get_their_weights() {
        let (mut order, mut flows) = (Order::default(), [Flow::default(), Flow::default(), Flow::default()]);
        let weights = [1, 3, 6];
        let mut started = [0u64; 3];
        for (id, flow) in flows.iter_mut().enumerate() {
            order.push(id as u64, flow, 8192);
        }
        for _ in 0..1000 {
            let id = order.first().unwrap() as usize;
            order.start(id as u64, &mut flows[id], weights[id]);
            started[id] += 1;
            order.push(id as u64, &mut flows[id], 8192);
        }
        assert!(started[0].abs_diff(100) <= 1 && started[1].abs_diff(300) <= 1, "{started:?}");
    }

    #[test]
    fn a_flow_that_was_idle_neither_saves_up_nor_pays() {
        let (mut order, mut busy, mut idle) = (Order::default(), Flow::default(), Flow::default());
        for _ in 0..100 {
            order.push(1, &mut busy, 1 << 20);
            order.start(1, &mut busy, 1);
        }
        order.push(1, &mut busy, 1 << 20);
        order.push(2, &mut idle, 4096);
        assert_eq!(order.first(), Some(2), "it goes first once");
        assert_eq!(order.ahead(1, &busy), (1, 4096));
        let mut in_a_row = 0;
        while order.first() == Some(2) {
            order.start(2, &mut idle, 1);
            order.push(2, &mut idle, 4096);
            in_a_row += 1;
        }
        assert!(in_a_row <= (2 << 20) / 4096, "{in_a_row} requests for the idle time");
        order.withdraw(2, &mut idle);
        assert_eq!((order.first(), order.ahead(1, &busy)), (Some(1), (0, 0)));
    }
}
