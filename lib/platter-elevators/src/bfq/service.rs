//! B-WF2Q+: chooses the queue to serve next, so that service is shared by weight whatever the sizes of its
//! portions.
//!
//! Each queue that requests service has a virtual start and finish time; finish is start plus budget divided by
//! weight. Virtual time advances by the service given, divided by the sum of weights. A queue is eligible once
//! virtual time has reached its start; the eligible queue with the smallest finish is served next. After its
//! service, its start advances by what it really received, divided by its weight. A queue that has nothing more to
//! do is remembered until virtual time reaches its finish, so that it cannot gain by leaving and coming back.
//!
//! Source: B-WF2Q+ as in BFQ (Valente, "Evolution of the BFQ Storage-I/O Scheduler", 2015; Checconi and Valente,
//! "High Throughput Disk Scheduling with Fair Bandwidth Distribution", 2010; Linux 4.12 and later). Those search
//! one tree, augmented with least start times. Here one heap, ordered by start, holds queues that are not yet
//! eligible and another, ordered by finish, those that are: virtual time never goes back, so each queue moves from
//! one to the other once per budget. Times are fixed point and compared by their difference, so that they may wrap.

use alloc::vec::Vec;

/// Priority classes, highest first; each has its own virtual time.
pub(super) const CLASSES: usize = 3;
/// Fractional bits of virtual times.
const SHIFT: u32 = 22;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Requests no service, and virtual time has passed all that it received.
    #[default]
    Away,
    /// Requests service, but its start is in the future.
    Later,
    /// Requests service and is eligible.
    Eligible,
    /// Is being served.
    Served,
    /// Requests no service, but received more than virtual time has reached.
    Ahead,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    start: u64,
    finish: u64,
    weight: u64,
    class: usize,
    at: At,
    /// Index in its heap.
    slot: usize,
}

/// Entities by key, smallest first; each entity stores its index.
#[derive(Clone, Debug, Default)]
struct Heap(Vec<(u64, u32)>);

/// Whether `a` is later than `b`.
#[inline]
fn later(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[inline]
fn less(a: (u64, u32), b: (u64, u32)) -> bool {
    a.0 != b.0 && later(b.0, a.0) || a.0 == b.0 && a.1 < b.1
}

impl Heap {
    fn first(&self) -> Option<(u64, u32)> {
        self.0.first().copied()
    }

    fn push(&mut self, entities: &mut [Entity], key: u64, entity: u32) {
        self.0.push((key, entity));
        self.rise(entities, self.0.len() - 1);
    }

    fn remove(&mut self, entities: &mut [Entity], slot: usize) {
        self.0.swap_remove(slot);
        if slot < self.0.len() {
            let slot = self.rise(entities, slot);
            self.sink(entities, slot);
        }
    }

    fn put(&mut self, entities: &mut [Entity], slot: usize, item: (u64, u32)) {
        self.0[slot] = item;
        entities[item.1 as usize].slot = slot;
    }

    fn rise(&mut self, entities: &mut [Entity], mut slot: usize) -> usize {
        let item = self.0[slot];
        while slot > 0 && less(item, self.0[(slot - 1) / 2]) {
            let parent = (slot - 1) / 2;
            self.put(entities, slot, self.0[parent]);
            slot = parent;
        }
        self.put(entities, slot, item);
        slot
    }

    fn sink(&mut self, entities: &mut [Entity], mut slot: usize) {
        let item = self.0[slot];
        loop {
            let left = 2 * slot + 1;
            let Some(&first) = self.0.get(left) else { break };
            let child = match self.0.get(left + 1) {
                Some(&second) if less(second, first) => left + 1,
                _ => left,
            };
            if !less(self.0[child], item) {
                break;
            }
            self.put(entities, slot, self.0[child]);
            slot = child;
        }
        self.put(entities, slot, item);
    }
}

/// One priority class.
#[derive(Clone, Debug, Default)]
struct Tree {
    now: u64,
    /// Sum of weights of all entities that are not away.
    weights: u64,
    eligible: Heap,
    later: Heap,
    ahead: Heap,
}

impl Tree {
    /// Virtual time has advanced: forgets the entities that it has caught up with.
    #[inline]
    fn forget(&mut self, entities: &mut [Entity]) {
        while let Some((finish, entity)) = self.ahead.first()
            && !later(finish, self.now)
        {
            self.ahead.remove(entities, 0);
            let entity = &mut entities[entity as usize];
            entity.at = At::Away;
            self.weights -= entity.weight;
        }
    }

    fn enqueue(&mut self, entities: &mut [Entity], entity: u32, budget: u64) {
        let it = &mut entities[entity as usize];
        it.finish = it.start.wrapping_add(span(budget, it.weight));
        let (start, finish) = (it.start, it.finish);
        if later(start, self.now) {
            it.at = At::Later;
            self.later.push(entities, start, entity);
        } else {
            it.at = At::Eligible;
            self.eligible.push(entities, finish, entity);
        }
    }

    /// Removes an entity from its heap.
    fn extract(&mut self, entities: &mut [Entity], entity: u32) {
        let Entity { at, slot, .. } = entities[entity as usize];
        match at {
            At::Later => self.later.remove(entities, slot),
            At::Eligible => self.eligible.remove(entities, slot),
            At::Ahead => self.ahead.remove(entities, slot),
            At::Served | At::Away => {}
        }
    }
}

/// Virtual length of an amount of service.
#[inline]
fn span(service: u64, weight: u64) -> u64 {
    (service << SHIFT) / weight.max(1)
}

/// The entities, by number, of all classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    entities: Vec<Entity>,
    trees: [Tree; CLASSES],
}

impl Service {
    pub(super) fn reserve(&mut self, entities: usize) {
        if entities > self.entities.len() {
            self.entities.resize(entities, Entity::default());
        }
        for heap in self.trees.iter_mut().flat_map(|t| [&mut t.eligible, &mut t.later, &mut t.ahead]) {
            heap.0.reserve(entities - heap.0.len().min(entities));
        }
    }

    /// Whether an entity of a class waits for service.
    #[inline]
    pub(super) fn has_waiting(&self, class: usize) -> bool {
        !self.trees[class].eligible.0.is_empty() || !self.trees[class].later.0.is_empty()
    }

    /// An entity that requested no service requests it now. `resumed`: it would have gone on if its request had come
    /// sooner, so it takes up the times that it had; the factor by which its weight is raised.
    pub(super) fn activate(
        &mut self,
        entity: u32,
        class: usize,
        weight: u64,
        budget: u64,
        resumed: Option<u64>,
    ) {
        let tree = &mut self.trees[class];
        let it = self.entities[entity as usize];
        let back = resumed.filter(|_| later(tree.now, it.finish));
        let mut start = if back.is_some() { it.finish } else { tree.now };
        if it.at == At::Ahead {
            tree.extract(&mut self.entities, entity);
            tree.weights -= it.weight;
            start = if later(it.finish, start) { it.finish } else { start };
        }
        tree.weights += weight;
        // Times far behind virtual time would let it have the device for long. They are pushed up, of a raised one by less.
        let finish = start.wrapping_add(span(budget, weight));
        if let Some(factor) = back.filter(|_| later(tree.now, finish)) {
            start = start.wrapping_add(tree.now.wrapping_sub(finish) / factor.max(1));
        }
        self.entities[entity as usize] = Entity { start, weight, class, ..it };
        tree.enqueue(&mut self.entities, entity, budget);
    }

    /// The budget that a waiting entity requests has changed, and perhaps its weight.
    pub(super) fn rebudget(&mut self, entity: u32, weight: u64, budget: u64) {
        let Entity { class, at, .. } = self.entities[entity as usize];
        if matches!(at, At::Later | At::Eligible) {
            self.trees[class].extract(&mut self.entities, entity);
            self.reweigh(entity, weight);
            self.trees[class].enqueue(&mut self.entities, entity, budget);
        }
    }

    /// The weight of the entity in service has changed: what it has received counts with the new one.
    pub(super) fn reweigh(&mut self, entity: u32, weight: u64) {
        let it = &mut self.entities[entity as usize];
        let tree = &mut self.trees[it.class];
        tree.weights = tree.weights - it.weight + weight;
        it.weight = weight;
    }

    /// Starts to serve the next entity and returns it.
    pub(super) fn start_next(&mut self, class: usize) -> Option<u32> {
        let tree = &mut self.trees[class];
        let entities = &mut self.entities;
        if tree.eligible.0.is_empty()
            && let Some((start, _)) = tree.later.first()
            && later(start, tree.now)
        {
            tree.now = start;
            tree.forget(entities);
        }
        while let Some((start, entity)) = tree.later.first()
            && !later(start, tree.now)
        {
            tree.later.remove(entities, 0);
            entities[entity as usize].at = At::Eligible;
            let finish = entities[entity as usize].finish;
            tree.eligible.push(entities, finish, entity);
        }
        let (_, entity) = tree.eligible.first()?;
        tree.eligible.remove(entities, 0);
        entities[entity as usize].at = At::Served;
        Some(entity)
    }

    /// An entity has received `service` more.
    #[inline]
    pub(super) fn serve(&mut self, entity: u32, service: u64) {
        let tree = &mut self.trees[self.entities[entity as usize].class];
        tree.now = tree.now.wrapping_add(span(service, tree.weights));
        tree.forget(&mut self.entities);
    }

    /// The entity's service has ended with `service` in total. It requests more, up to `budget`, from now on with
    /// `weight`.
    pub(super) fn requeue(&mut self, entity: u32, service: u64, weight: u64, budget: u64) {
        let it = &mut self.entities[entity as usize];
        let tree = &mut self.trees[it.class];
        it.start = it.start.wrapping_add(span(service, it.weight));
        tree.weights = tree.weights - it.weight + weight;
        it.weight = weight;
        tree.enqueue(&mut self.entities, entity, budget);
    }

    /// The entity's service has ended with `service` in total, and it requests no more.
    pub(super) fn retire(&mut self, entity: u32, service: u64) {
        let it = &mut self.entities[entity as usize];
        it.finish = it.start.wrapping_add(span(service, it.weight));
        self.go_ahead(entity);
    }

    /// A waiting entity requests no more: all of its requests were served in the service of others, or merged.
    pub(super) fn leave(&mut self, entity: u32) {
        let Entity { class, at, .. } = self.entities[entity as usize];
        if matches!(at, At::Later | At::Eligible) {
            self.trees[class].extract(&mut self.entities, entity);
            self.go_ahead(entity);
        }
    }

    /// Remembers an entity as long as virtual time has not reached its finish.
    fn go_ahead(&mut self, entity: u32) {
        let it = &mut self.entities[entity as usize];
        let tree = &mut self.trees[it.class];
        if later(it.finish, tree.now) {
            it.at = At::Ahead;
            let finish = it.finish;
            tree.ahead.push(&mut self.entities, finish, entity);
        } else {
            it.at = At::Away;
            tree.weights -= it.weight;
        }
    }

    /// Withdraws an entity's request for service, if any, and forgets its past service.
    pub(super) fn withdraw(&mut self, entity: u32) {
        let Entity { class, at, weight, .. } = self.entities[entity as usize];
        if at != At::Away {
            self.trees[class].extract(&mut self.entities, entity);
            self.trees[class].weights -= weight;
            self.entities[entity as usize].at = At::Away;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves each chosen entity with its budget until `left` is used up; returns what each received.
    fn share(service: &mut Service, queues: &[(u64, u64)], mut left: u64) -> Vec<u64> {
        let mut received = alloc::vec![0; queues.len()];
        while left > 0 {
            let entity = service.start_next(1).expect("all want service all the time");
            let (weight, budget) = queues[entity as usize];
            service.serve(entity, budget);
            service.requeue(entity, budget, weight, budget);
            received[entity as usize] += budget;
            left = left.saturating_sub(budget);
        }
        received
    }

    #[test]
    fn service_is_shared_by_weight_whatever_the_budgets() {
        #[rustfmt::skip]
        let cases: [&[(u64, u64)]; 5] = [
            &[(10, 100), (10, 100)],
            &[(10, 16384), (80, 512)],
            &[(80, 16384), (10, 8), (40, 1000)],
            &[(1200, 1024), (40, 16384)],
            &[(10, 8), (20, 8), (30, 8), (40, 8), (50, 8), (60, 8), (70, 8), (80, 8)],
        ];
        for queues in cases {
            let mut service = Service::default();
            service.reserve(queues.len());
            // Near the largest number: times wrap in the middle of the test.
            service.trees[1].now = u64::MAX - (1 << 30);
            for (entity, &(weight, budget)) in queues.iter().enumerate() {
                service.activate(entity as u32, 1, weight, budget, None);
            }
            let weights: u64 = queues.iter().map(|queue| queue.0).sum();
            let largest = queues.iter().map(|queue| queue.1).max().expect("a queue");
            for round in 0..3 {
                let total = 40_000_000;
                let received = share(&mut service, queues, total);
                for (&got, &(weight, _)) in received.iter().zip(queues) {
                    let fair = total * weight / weights;
                    assert!(
                        got.abs_diff(fair) <= 2 * largest,
                        "{queues:?} in round {round}: {got}, fair {fair}"
                    );
                }
            }
        }
    }

    #[test]
    fn leaving_and_coming_back_gains_nothing() {
        let mut service = Service::default();
        service.reserve(2);
        service.activate(0, 1, 10, 100, None);
        service.activate(1, 1, 10, 100, None);
        let mut received = [0u64; 2];
        for _ in 0..1000 {
            let entity = service.start_next(1).expect("at least one wants service");
            service.serve(entity, 100);
            received[entity as usize] += 100;
            if entity == 0 {
                service.requeue(0, 100, 10, 100);
            } else {
                service.retire(1, 100);
                service.activate(1, 1, 10, 100, None);
            }
        }
        assert!(received[0].abs_diff(received[1]) <= 200, "{received:?}");
    }

    /// Linux: `__bfq_activate_entity` and `bfq_update_fin_time_enqueue`.
    #[test]
    fn who_resumes_takes_up_its_times_but_not_far_behind_the_others() {
        for (resumed, start) in [(None, 1000), (Some(1), 995), (Some(30), 14 + (1000 - 19) / 30)] {
            let mut service = Service::default();
            service.reserve(2);
            service.activate(0, 1, 10, 100, None);
            assert_eq!(service.start_next(1), Some(0));
            service.retire(0, 140);
            // In the meantime virtual time has gone on.
            service.trees[1].now = 1000 << SHIFT;
            service.trees[1].forget(&mut service.entities);
            service.activate(0, 1, 10, 50, resumed);
            assert_eq!(service.entities[0].start >> SHIFT, start, "{resumed:?}");
        }
    }

    #[test]
    fn being_away_saves_nothing_up() {
        let mut service = Service::default();
        service.reserve(2);
        service.activate(0, 1, 10, 100, None);
        assert_eq!(share(&mut service, &[(10, 100)], 100_000), [100_000]);
        service.activate(1, 1, 10, 100, None);
        let received = share(&mut service, &[(10, 100), (10, 100)], 2000);
        assert!(received[0].abs_diff(received[1]) <= 200, "{received:?}");
    }

    #[test]
    fn weights_are_forgotten_with_their_entities() {
        let mut service = Service::default();
        service.reserve(3);
        for entity in 0..3 {
            service.activate(entity, 2, 10, 100, None);
        }
        let first = service.start_next(2).expect("three wait");
        service.serve(first, 100);
        service.retire(first, 100);
        assert_eq!((first, service.trees[2].weights), (0, 30), "it is ahead of virtual time");
        service.withdraw(2);
        assert_eq!(service.trees[2].weights, 20);
        let second = service.start_next(2).expect("one waits");
        service.serve(second, 200);
        assert_eq!((second, service.trees[2].weights), (1, 10), "virtual time has caught up with the first");
        service.retire(second, 100);
        assert_eq!(service.trees[2].weights, 0);
        assert!(!service.has_waiting(2) && service.start_next(2).is_none());
    }
}
