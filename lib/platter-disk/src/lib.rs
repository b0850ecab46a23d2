//! Part of Platter, a block I/O layer in user space.
//!
//! # The life of a bio
//!
//! 1. **Creation.** `Bio::read` and `Bio::write` take a buffer that the bio then owns; `Builder::add` adds segments as
//!    far as the limits at that position allow; synchronous calls add borrowed memory with `add_memory`. A recycled bio
//!    (`Bio::reset_read`, `Bio::rewind`) costs no allocation.
//! 2. **Submission** goes through one of three handles, all of which end in `Lane::submit`: `Device::read_at` and
//!    similar calls by `Device::transfer`; `Device::read` and `Device::write` by `AsyncLane::start`; `Channel::submit`.
//!    A synchronous call that begins or ends inside a block, has a deadline, or is large and misaligned
//!    (`CopyRules::needs`) uses bios over memory of the library (`Copied::run`).
//! 3. **The caller's plug.** `DiskLane::submit` adds the bio to a list. `DiskLane::run` and `DiskLane::wait` empty it
//!    as one batch.
//! 4. **The gate.** `DiskLane::enter` checks the `Gate` once for the batch. If it is not frozen and the device has no
//!    elevator, the bios go to the lane's own queue, a `DirectQueue`. If a barrier has frozen it, or the device has
//!    an elevator, they go to the shared queue, a `SchedQueue` (`DiskLane::send_all`). Barriers, writes that need a
//!    flush, and flushes go to its inbox (`DiskLane::queue_rest`), but for the lone flush of a sleeping caller
//!    (`DiskLane::flush_here`).
//! 5. **The own queue.** A common bio (one piece of aligned memory within all limits, nothing to merge it with, no
//!    trace, no deadline: `Common::covers`) goes from the batch straight to the driver (`DirectQueue::start_common`).
//!    For any other, `DiskLane::check_memory` checks the memory and replaces a bio whose memory the device cannot take
//!    by an aligned copy, which is counted. `Queue::submit_sound` then checks the rest, splits what is larger than the
//!    device takes (`Queue::split`), and adds the bio to the backlog. Requests are made of the backlog when the driver
//!    takes them: bios that continue each other become one request (`DirectQueue::take_run`). Beyond `nr_requests` bios
//!    wait (`DirectQueue::wake_waiters`).
//! 6. **The shared queue** has the same body (the head of `lib/platter-block/src/queue.rs`). It orders flushes,
//!    barriers and durable writes (`SchedQueue::submit_ordered`) and merges: `SchedQueue::find_merge` tries the last
//!    request that grew, then the hash of ends, then of starts; a request that reaches its neighbour is joined with it
//!    (`SchedQueue::join`). Otherwise the bio takes a request from the pool (`RequestPool::take`) or waits for one
//!    (`SchedQueue::wait_for_request`); a new one goes to the elevator (`SchedQueue::insert_new`, `Elevator::insert`)
//!    or, without an elevator, to the dispatch list (`SchedQueue::make_ready`).
//! 7. **The device's plug** holds back an idle queue with an elevator until `unplug_thresh` requests wait,
//!    `unplug_delay` has passed, or a caller waits (`SchedQueue::plug_if_empty`, `SchedQueue::unplug_if_due`,
//!    `SchedQueue::unplug_for_waiter`, `Unplugs::ask`).
//! 8. **Dispatch.** A round of a queue with its driver (`QueueLane::begin`, `QueueLane::end`)
//!    runs timers, collects completions, then fills the driver while fewer than `depth` requests are in flight: retries
//!    first, then the batch or the backlog; in the shared queue the dispatch list, then what
//!    `Elevator::dispatch` chooses. An elevator may return none for a while (`anticipatory` waits for the next read of
//!    a process) as long as a completion or `Elevator::next_wakeup` ends that. `Driver::queue` takes the request,
//!    `Driver::submit` submits the rest of the batch (`uring` submits once per eight requests, so that the disk works
//!    while the others are prepared). A driver that completes requests itself (`Driver::is_prompt`) is reaped once
//!    more.
//! 9. **Completion.** `Driver::reap` reports tags; `DirectQueue::complete` and `SchedQueue::complete` find the request.
//!    A full transfer completes its bios (`Queue::finish`), a short one is resumed, and a failed request is
//!    retried bio by bio (`Queue::retry`), so that only the bio over the bad sector fails. Pieces of a split
//!    complete their parent (`Queue::child_done`).
//! 10. **Delivery.** `Lane::take_done` returns the bio to the lane's owner. From the shared queue it first goes by
//!     `Shared::deliver` and `Lanes::post` to the `Mailbox` of its lane, and a sleeping lane is woken; the lane takes
//!     the bios from its mailbox in `DiskLane::help`. `DiskLane::unwrap_bounced` replaces a bounced bio by the
//!     original.
//! 11. **Return**: the call returns, `Channel::poll` appends it, or the lane of a future puts it into the future's
//!     `Reply` and has the waker woken, after the lock is released (`Deferred::Wake`). One read (docs/path.md), step by
//!     step.
//!
//! **Invariant:** a submitted bio completes exactly once, with `Bio::status`, unless its lane is dropped first; then
//! the bio is dropped when the disk has finished it.
//!
//! # Three ways to call
//!
//! | | memory | waits | reaps completions |
//! |---|---|---|---|
//! | synchronous: `Device::read_at`, `Device::cursor`, `Device::handle` | borrowed for the call; with a deadline, the library's own | the calling thread, in `Lane::wait` | the calling thread |
//! | futures: `Device::read` | owned by the bio, comes back in the `Outcome` | no thread; a waker is woken | the polling thread, an event loop (`Device::reactor`), otherwise the service thread |
//! | polled: `Device::channel` | owned by the bio, taken out with `Bio::take_buffer` | optional: `Channel::wait` | the polling thread |
//!
//! A synchronous call uses a lane of the device's `LanePool` (`Callers::take`). `Backend::max_lanes` limits their
//! number, because each costs a driver channel. A caller that finds no idle lane opens one; at the limit, or when the
//! system refuses another, it waits for one. Surplus idle lanes are closed when calls end (`LanePool::trim`), and all
//! idle lanes of the process when something cannot be opened (`callers::relieve`). A call with a
//! deadline uses no lane of the pool but one of the futures (`AsyncLane::run_call`), where its bio can stay when the call
//! ends; the service thread runs that lane, and wakes the call. A channel has its own lane and stays with the thread that opened it, so that its ring can
//! be set up for one thread.
//!
//! Futures use lanes that the service thread can run (`AsyncLane`). Each thread that starts futures has its own, up to
//! the number of processors (16 at most); further threads share them, and in a simulation there is one
//! (`Background::lane`). A future stays on the lane of the thread that started it, whichever thread polls it. Unless it
//! ends when it is made (below), it takes the lane's lock when it starts and at its first poll, and the service thread,
//! or an event loop with a `Reactor` (`Device::block_on` has one of its own), takes it once to reap; the completed bio
//! is handed over without a lock (`Reply`). I/Os polled in one turn of an executor are handed over together, within 10
//! ms at the latest (docs/decisions/2026-11-29-turns-of-executors.md). A barrier is handed to the device at once, after
//! the I/Os of the other lanes (`Background::hand_over_others`), so that it keeps its place among the futures of all
//! threads.
//!
//! # What runs on which thread, and when
//!
//! - **Own queues.** Without an elevator each lane has a queue and a driver channel of its own. A batch goes from plug
//!   to ring without a lock. Lanes of a disk share only the gate, which is checked once per batch, and the tokens.
//! - **The shared queue.** With an elevator all lanes share one queue with one driver channel (`Control`). A lane tries
//!   the queue's lock (`Runner::run_at_once`). The thread that gets it is the runner: it takes the whole inbox, hands its
//!   own bios over behind that, runs the queue, delivers completions to all lanes, and looks for others before it
//!   finishes. A thread that does not get the lock puts its bios into the inbox, tries once more (`Runner::run`), and
//!   continues, because the runner will see them, or a lane that it rings when it has run `MOST_ROUNDS` rounds
//!   (`Shared::call_runner`). The lock is taken once per batch and metered. What needs no
//!   lock is done outside it: a lane examines its bios before it sends them (`Prebuilt`), and the runner wakes lanes
//!   after it has released the lock. `bench locks` (docs/locks.md) shows what is left. While threads that were woken
//!   have not run yet (`Woken`), a synchronous call leaves its bio in the inbox and sleeps; the last of these threads
//!   runs the queue, so that their next bios go to the driver as a batch.
//! - **Depth** is per device. A lane may always have one request in flight; for more it takes tokens (`Tokens::take`).
//!   While a lane is short of tokens, each lane may have at most its share (`Tokens::allowance`) and returns tokens
//!   that exceed it or are unused. An idle lane returns all.
//! - **Waking.** A thread that waits for the disk sleeps on descriptors, so other threads wake it by one (`ArmedDoorbell`,
//!   in `platter-wait`): lanes, the service thread and the `threads` driver. Threads that wait only for each other, for a lane
//!   of the pool or a block that another call is changing, use a condition variable (`Condvar`, in `sync.rs`), which
//!   costs no descriptor. So does the lane of a synchronous call that only another lane can wake (`Parker`). A signal
//!   does not end that sleep, so channels do not use it.
//! - **Sleeping.** A thread that waits in its own queue blocks in `Driver::wait`, which submits and waits in one system
//!   call where the driver can. Of the threads that wait for the shared queue one polls the driver's descriptor
//!   (`Poller`), runs the queue whenever something completes, and sleeps again until its own bio is back; the others
//!   sleep on the bells of their lanes. When the polling thread stops sleeping, another one takes over. So a completion
//!   wakes two threads at most, however many wait. When an elevator begins to wait, the polling thread is woken, so
//!   that it asks the elevator again in time. Lanes that other threads sleep for (`Lane::wait_handles`: the service
//!   thread, members of arrays other than the first) poll the descriptor themselves. Several threads may sleep for one
//!   lane, as for the lane of a cache's engine. They get one descriptor of a set (`PollSet`): all of them wait for
//!   whatever one of them adds. A new list for each thread would not work: when one thread clears the lane's bell,
//!   threads that have not run yet would miss that wakeup.
//! - **The service thread** (`service.rs`) exists once per process. It is started for the first future that is not
//!   polled to completion, or by the first device that rings for work of its own. It sleeps on the descriptors of the
//!   lanes that it watches and runs those that have a reason (`Watch::run`): a readable descriptor, a timer, or a call
//!   (`AsyncLane::call`). It keeps watching up to 32 idle lanes, so that the next future on one of them need not wake
//!   it first. Programs that call synchronously or poll do not use it unless a cache has pages to write back, and it
//!   does not wake while nothing is in flight.
//! - **Time.** `clock::now` is read once per batch by the thread that runs the lane, and passed down. A channel may
//!   reduce that to one reading every 64 polls (`Channel::set_stamps`). On x86-64 with an invariant time-stamp counter,
//!   that counter is used.
//!
//! **Invariant:** a lane makes progress only inside `Lane::run` and `Lane::wait`. No thread is started for a lane,
//! except by the `threads` driver, and by `uring` and `aio` for operations that the kernel can only do while the caller
//! blocks.
//!
//! **Invariant:** no code of the program (wakers, destructors of buffers, watchers) is called while a lock of Platter
//! is held, except trace sinks and elevators, which are part of a queue. Each thread counts the locks that it holds
//! (`Held`, and the `Mutex` of `sync.rs`). While the count is not zero, dropped `Owner`s and wakers to wake are put on
//! a list of the thread, until its last lock is released (`deferred.rs`). A synchronous call counts as a lock for its
//! whole length, because it may hold a resource that a destructor waits for: a place before a barrier, the depth of a
//! `limit`.

#![deny(unsafe_code)]

pub mod adapters;
mod aligned;
mod background;
pub mod bounce;
mod byte_range;
mod callers;
pub mod channel;
pub mod clock;
mod closed;
mod deferred;
pub mod device;
pub mod disk_backend;
pub mod drivers;
pub mod elevators;
mod fence;
mod fenced_lane;
pub mod fiemap;
pub mod future;
pub mod handle;
mod lane_pool;
pub mod lock_meter;
mod ofd;
pub mod open;
pub mod pool;
pub mod service;
mod submitter;
mod sync;
pub mod sync_io;
pub mod sys;
mod thread_number;
pub mod trace_output;
mod tuning;
mod wake;
