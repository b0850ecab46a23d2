//! One front end: its messages, and the queues that they start and stop.

use super::common::{Common, Stop};
use super::disk::{self, MAX_QUEUES, feature};
use super::inflight::Inflight;
use super::link::{Found, Message, Socket, event, send};
use super::memory::{MAX_REGIONS, Memory};
use super::vring::{Failure, QueueStart, Vring};
use super::wire::{self, Body, Numbered, protocol, request};
use crate::admission::{Bells, ClientShare};
use crate::clients::Connected;
use crate::events::Log;
use crate::served::Served;
use crate::telling::FirstFailure;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::lane::Bell;
use platter_wait::EventFd;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Wakes the session when the device changes its size.
struct Resizes(Arc<EventFd>);

impl Watcher for Resizes {
    fn event(&self, event: &DeviceEvent) {
        if matches!(event, DeviceEvent::Resized { .. }) {
            self.0.ring();
        }
    }
}

/// What a session is made of.
pub(super) struct Start {
    pub(super) served: Arc<Served>,
    pub(super) client: Arc<Connected>,
    pub(super) log: Log,
    pub(super) depth: usize,
    pub(super) socket: Arc<Socket>,
    /// Identifies this process in regions of requests in flight.
    pub(super) server: u64,
    /// How long the front end may take until its first message.
    pub(super) first_message: Duration,
}

pub(super) struct Session {
    start: Start,
    share: Arc<ClientShare>,
    bells: Arc<Bells>,
    write_back: Arc<AtomicBool>,
    failed: Arc<FirstFailure>,
    common: Option<Arc<Common>>,
    failure: Arc<Failure>,
    features: u64,
    protocol: u64,
    memory: Arc<Memory>,
    inflight: Option<Arc<Inflight>>,
    vrings: Vec<Vring>,
    /// Where the front end takes messages of the back end.
    channel: Option<OwnedFd>,
    resized: Arc<EventFd>,
    told_size: u64,
    _watcher: Arc<Resizes>,
}

type Answer = Result<Option<Vec<u8>>, String>;

impl Session {
    /// A session.
    ///
    /// # Errors
    /// There is no free descriptor.
    pub(super) fn new(start: Start) -> Result<Session, String> {
        let bells = Arc::new(Bells::default());
        let share = ClientShare::join(&start.served, &start.client, Arc::clone(&bells) as Arc<dyn Bell>);
        let resized =
            EventFd::new().map(Arc::new).map_err(|errno| format!("no descriptor for a session: {errno}"))?;
        let watcher = Arc::new(Resizes(Arc::clone(&resized)));
        let weak: Weak<Resizes> = Arc::downgrade(&watcher);
        start.served.device().watch(weak as Weak<dyn Watcher>);
        Ok(Session {
            share,
            bells,
            write_back: Arc::new(AtomicBool::new(true)),
            failed: Arc::default(),
            common: None,
            failure: Failure::new(&start.socket),
            features: 0,
            protocol: 0,
            memory: Arc::default(),
            inflight: None,
            vrings: (0..MAX_QUEUES).map(|_| Vring::default()).collect(),
            channel: None,
            resized,
            told_size: start.served.device().size(),
            _watcher: watcher,
            start,
        })
    }

    /// Serves until the connection ends; returns the reason. `stopping`: the server ends it, and what the guest has made
    /// available is answered.
    pub(super) fn run(mut self, stopping: &AtomicBool) -> String {
        // A front end that does not begin keeps others waiting, and the operator would look for the reason.
        let mut until = Instant::now().checked_add(self.start.first_message);
        let why = loop {
            match self.start.socket.wait(&*self.resized, until) {
                Found::Message => until = None,
                Found::Other => {
                    self.resized.clear();
                    self.tell_size();
                    continue;
                }
                Found::Nothing if until.is_some_and(|until| until <= Instant::now()) => {
                    break "it sent nothing".to_owned();
                }
                Found::Nothing => continue,
            }
            match self.start.socket.receive() {
                Ok(Some(message)) => {
                    if let Err(why) = self.take(message) {
                        break why;
                    }
                }
                Ok(None) if stopping.load(Ordering::Relaxed) => break "the server stops".to_owned(),
                Ok(None) => break "the peer closed the connection".to_owned(),
                Err(why) => break why,
            }
        };
        let is_last = stopping.load(Ordering::Relaxed);
        self.stop_all(if is_last { Stop::AfterThese } else { Stop::Now });
        if is_last {
            self.cover_all();
        }
        self.failure.take().unwrap_or(why)
    }

    /// The server stops: after this flush nothing that the guest was told is written can be lost with the process.
    fn cover_all(&self) {
        let Some(inflight) = &self.inflight else { return };
        let mut counts = Vec::new();
        inflight.answered(&mut counts);
        if !self.start.served.is_read_only() && self.start.served.device().flush().is_ok() {
            inflight.covered(&counts);
        }
    }

    fn stop_all(&mut self, how: Stop) {
        self.vrings.iter().for_each(|vring| vring.begin_stop(how));
        self.vrings.iter_mut().for_each(Vring::finish_stop);
    }

    /// Stops all queues, changes something, and starts those that can run.
    fn with_queues_stopped(&mut self, change: impl FnOnce(&mut Session) -> Result<(), String>) -> Answer {
        self.stop_all(Stop::Now);
        change(self)?;
        (0..MAX_QUEUES).try_for_each(|queue| self.update(queue))?;
        Ok(None)
    }

    /// Starts or stops a queue, as what the front end has said of it demands.
    fn update(&mut self, number: u16) -> Result<(), String> {
        let common = self.common();
        let Some(vring) = self.vrings.get_mut(usize::from(number)) else { return Ok(()) };
        match (vring.is_ready(), vring.is_running()) {
            (true, false) => {
                let by_index = self.features & feature::EVENT_IDX != 0;
                let (memory, inflight, failure) = (&self.memory, self.inflight.as_ref(), &self.failure);
                vring.start(number, &QueueStart { memory, inflight, common: &common, failure, by_index })
            }
            (false, true) => {
                vring.begin_stop(Stop::Now);
                vring.finish_stop();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn common(&mut self) -> Arc<Common> {
        let Session { start, common, share, bells, write_back, failed, inflight, .. } = self;
        let made = common.get_or_insert_with(|| {
            let first_flush = match inflight {
                // It is known what this guest was told.
                Some(region) if region.is_survivor() => start.served.survivor(),
                Some(_) => start.served.acquainted(),
                None => start.served.newcomer(),
            };
            Arc::new(Common {
                served: Arc::clone(&start.served),
                client: Arc::clone(&start.client),
                share: Arc::clone(share),
                bells: Arc::clone(bells),
                log: Arc::clone(&start.log),
                first_flush,
                write_back: Arc::clone(write_back),
                depth: start.depth,
                failure: Arc::clone(failed),
            })
        });
        Arc::clone(made)
    }

    /// Carries out a message.
    fn take(&mut self, message: Message) -> Result<(), String> {
        let Message { header, body, files } = message;
        let (answer, file) = match self.answer(header.request, &body, files) {
            Ok(done) => done,
            Err(why) => {
                if header.needs_reply && self.protocol & protocol::REPLY_ACK != 0 {
                    // The reason is logged; the front end may have gone.
                    let _ = self.start.socket.send(&wire::reply(header.request, &1u64.to_ne_bytes()), None);
                }
                return Err(why);
            }
        };
        if let Some(body) = answer {
            let file = file.as_ref().map(AsFd::as_fd);
            return self.start.socket.send(&wire::reply(header.request, &body), file);
        }
        if header.needs_reply && self.protocol & protocol::REPLY_ACK != 0 {
            return self.start.socket.send(&wire::reply(header.request, &0u64.to_ne_bytes()), None);
        }
        Ok(())
    }

    fn answer(
        &mut self,
        number: u32,
        body: &[u8],
        files: Vec<OwnedFd>,
    ) -> Result<(Option<Vec<u8>>, Option<File>), String> {
        let short = || format!("message {number} is too short: {} bytes", body.len());
        let parsed = Body(body);
        if number == request::GET_INFLIGHT_FD {
            let shape = parsed.shape().ok_or_else(short)?;
            let (shape, file) = self.make_inflight(shape)?;
            return Ok((Some(wire::shape_body(&shape, body.len())), Some(file)));
        }
        let answer = match number {
            request::SET_OWNER => None,
            request::RESET_OWNER | request::RESET_DEVICE => self.reset(),
            request::SET_MEM_TABLE => self.set_memory(parsed.regions().ok_or_else(short)?, files)?,
            request::ADD_MEM_REG => {
                let region = parsed.single_region().ok_or_else(short)?;
                let file = one_file(files, "a memory region")?;
                self.with_queues_stopped(|session| {
                    session.memory = Arc::new(session.memory.with(region, file)?);
                    Ok(())
                })?
            }
            request::REM_MEM_REG => {
                let region = parsed.single_region().ok_or_else(short)?;
                self.with_queues_stopped(|session| {
                    session.memory = Arc::new(session.memory.without(region)?);
                    Ok(())
                })?
            }
            request::SET_INFLIGHT_FD => {
                let shape = parsed.shape().ok_or_else(short)?;
                let file = one_file(files, "the requests in flight")?;
                let region = Inflight::map(shape, file, self.start.server)?;
                self.with_queues_stopped(|session| {
                    (session.inflight, session.common) = (Some(Arc::new(region)), None);
                    Ok(())
                })?
            }
            request::SET_BACKEND_REQ_FD => {
                self.channel = files.into_iter().next();
                None
            }
            request::GET_CONFIG => {
                let space = disk::config(&self.start.served, self.write_back.load(Ordering::Relaxed));
                self.told_size = self.start.served.device().size();
                Some(wire::config_body(body, &space).ok_or_else(short)?)
            }
            request::SET_CONFIG => {
                let (offset, bytes) = parsed.config().ok_or_else(short)?;
                self.set_config(offset, bytes)?
            }
            request::SET_VRING_NUM..=request::SET_VRING_ERR | request::SET_VRING_ENABLE => {
                self.answer_about_queue(number, &parsed, files)?
            }
            _ => self.negotiate(number, parsed.number())?,
        };
        Ok((answer, None))
    }

    /// Messages about one queue.
    fn answer_about_queue(&mut self, number: u32, body: &Body<'_>, files: Vec<OwnedFd>) -> Answer {
        let short = || format!("message {number} is too short: {} bytes", body.0.len());
        match number {
            request::SET_VRING_KICK | request::SET_VRING_CALL | request::SET_VRING_ERR => {
                let (queue, has_file) = body.descriptor().ok_or_else(short)?;
                self.set_descriptor(number, queue, has_file, files)
            }
            request::SET_VRING_ADDR => {
                let (queue, at) = body.addresses().ok_or_else(short)?;
                self.vring(queue)?.at = Some(at);
                self.restart(queue)
            }
            _ => self.set_number(number, body.numbered().ok_or_else(short)?),
        }
    }

    /// Messages about features.
    fn negotiate(&mut self, number: u32, value: Option<u64>) -> Answer {
        let offered = disk::features(&self.start.served);
        let within = |offered: u64| {
            let value = value.ok_or_else(|| format!("message {number} is too short"))?;
            match value & !offered {
                0 => Ok(value),
                excess => Err(format!("features {excess:#x} were not offered")),
            }
        };
        let reply = match number {
            request::GET_FEATURES => offered,
            request::GET_PROTOCOL_FEATURES => protocol::ALL,
            request::GET_QUEUE_NUM => u64::from(MAX_QUEUES),
            request::GET_MAX_MEM_SLOTS => MAX_REGIONS as u64,
            request::SET_FEATURES => {
                self.features = within(offered)?;
                let whole = self.features & feature::FLUSH != 0;
                // A driver that does not flush expects each write to be durable.
                self.write_back.store(whole, Ordering::Relaxed);
                return Ok(None);
            }
            request::SET_PROTOCOL_FEATURES => {
                self.protocol = within(protocol::ALL)?;
                return Ok(None);
            }
            _ => return Err(format!("message {number} is not supported")),
        };
        Ok(Some(reply.to_ne_bytes().to_vec()))
    }

    fn vring(&mut self, number: u32) -> Result<&mut Vring, String> {
        let found = self.vrings.get_mut(number as usize);
        found.ok_or_else(|| format!("queue {number}: there are {MAX_QUEUES}"))
    }

    /// A queue that runs goes on with what has changed.
    fn restart(&mut self, number: u32) -> Answer {
        let vring = self.vring(number)?;
        if vring.is_running() {
            vring.begin_stop(Stop::Now);
            vring.finish_stop();
            self.update(number as u16)?;
        }
        Ok(None)
    }

    fn set_number(&mut self, message: u32, Numbered { queue, value }: Numbered) -> Answer {
        let has_protocol = self.features & feature::PROTOCOL != 0;
        let vring = self.vring(queue)?;
        match message {
            request::SET_VRING_NUM => {
                vring.size = u16::try_from(value).map_err(|_| format!("queue {queue}: {value} entries"))?;
                self.restart(queue)
            }
            request::SET_VRING_BASE => {
                vring.begin_stop(Stop::Now);
                vring.finish_stop();
                vring.next = value as u16;
                self.update(queue as u16).map(|()| None)
            }
            request::SET_VRING_ENABLE => {
                vring.is_enabled = value != 0 || !has_protocol;
                self.update(queue as u16).map(|()| None)
            }
            request::GET_VRING_BASE => {
                vring.begin_stop(Stop::Now);
                vring.finish_stop();
                vring.kick = None;
                Ok(Some(wire::numbered_body(queue, u32::from(vring.next))))
            }
            _ => Err(format!("message {message} is not supported")),
        }
    }

    fn set_descriptor(&mut self, message: u32, queue: u32, has_file: bool, files: Vec<OwnedFd>) -> Answer {
        let mut files = files.into_iter();
        let fd = files.next().filter(|_| has_file).map(event).transpose();
        let fd = fd.map_err(|why| format!("queue {queue}: {why}"))?;
        if fd.is_none() && has_file {
            return Err(format!("queue {queue}: a message without its descriptor"));
        }
        let has_protocol = self.features & feature::PROTOCOL != 0;
        let vring = self.vring(queue)?;
        match message {
            request::SET_VRING_CALL => {
                vring.call.set(fd);
                // What was completed while there was none is noticed now.
                vring.call.ring();
            }
            request::SET_VRING_ERR => vring.error.set(fd),
            _ => {
                let fd = fd.ok_or_else(|| {
                    format!("queue {queue}: without a descriptor it would have to be polled, which is not supported")
                })?;
                vring.begin_stop(Stop::Now);
                vring.finish_stop();
                vring.kick = Some(Arc::new(fd));
                vring.is_enabled |= !has_protocol;
                self.update(queue as u16)?;
            }
        }
        Ok(None)
    }

    fn set_memory(&mut self, regions: Vec<super::memory::Region>, files: Vec<OwnedFd>) -> Answer {
        if regions.len() != files.len() {
            return Err(format!("{} memory regions and {} descriptors", regions.len(), files.len()));
        }
        let mut memory = Memory::default();
        for (region, file) in regions.into_iter().zip(files) {
            memory = memory.with(region, file.into())?;
        }
        self.with_queues_stopped(|session| {
            session.memory = Arc::new(memory);
            Ok(())
        })
    }

    fn make_inflight(
        &mut self,
        wanted: super::inflight::Shape,
    ) -> Result<(super::inflight::Shape, File), String> {
        let (queues, size) = (wanted.queues, wanted.size);
        if queues == 0 || queues > MAX_QUEUES || size == 0 || size > super::ring::MAX_SIZE {
            return Err(format!("requests in flight of {queues} queues of {size} entries"));
        }
        let (shape, file) = Inflight::create(queues, size)?;
        let own = file.try_clone().map_err(|error| format!("no descriptor: {error}"))?;
        let region = Inflight::map(shape, own, self.start.server)?;
        self.with_queues_stopped(|session| {
            (session.inflight, session.common) = (Some(Arc::new(region)), None);
            Ok(())
        })?;
        Ok((shape, file))
    }

    /// The driver changes the configuration space: only whether writes need a flush to be durable.
    fn set_config(&mut self, offset: u32, bytes: &[u8]) -> Answer {
        let &[value] = bytes else {
            return Err(format!("{} bytes of the configuration space cannot be changed", bytes.len()));
        };
        if offset != disk::WRITE_BACK || self.features & feature::CONFIG_WCE == 0 || value > 1 {
            return Err(format!("byte {offset} of the configuration space cannot be set to {value}"));
        }
        self.write_back.store(value == 1, Ordering::Relaxed);
        Ok(None)
    }

    fn reset(&mut self) -> Option<Vec<u8>> {
        self.stop_all(Stop::Now);
        self.vrings = (0..MAX_QUEUES).map(|_| Vring::default()).collect();
        self.features = 0;
        self.write_back.store(true, Ordering::Relaxed);
        None
    }

    /// Tells the front end that the device has another size.
    fn tell_size(&mut self) {
        let size = self.start.served.device().size();
        if size == std::mem::replace(&mut self.told_size, size) {
            return;
        }
        self.vrings.iter().for_each(Vring::ring_bell);
        if let (Some(channel), true) = (&self.channel, self.protocol & protocol::CONFIG != 0)
            && send(channel, &wire::config_change(), None).is_err()
        {
            // It takes no more of them; it still has its disk.
            self.channel = None;
        }
    }
}

fn one_file(files: Vec<OwnedFd>, what: &str) -> Result<File, String> {
    let file = files.into_iter().next().ok_or_else(|| format!("the descriptor of {what} is missing"))?;
    Ok(file.into())
}
