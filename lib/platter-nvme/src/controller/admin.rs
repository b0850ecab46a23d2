//! Admin commands.

use super::{
    ALL_NAMESPACES, Action, Controller, Failure, Handler, MAX_EVENT_REQUESTS, NSID, Plan, Response, Step,
    features, field, health, invalid, one_namespace, pages,
};
use crate::command::{self, Command, Entry};
use crate::identify::{self, cns};
use crate::status::Status;
use alloc::vec;

pub(super) const HANDLERS: &[(&Command, Handler)] = &[
    (&command::IDENTIFY, identify),
    (&command::GET_LOG_PAGE, log_page),
    (&command::GET_FEATURES, features::get),
    (&command::SET_FEATURES, features::set),
    (&command::ABORT, abort),
    (&command::ASYNCHRONOUS_EVENT_REQUEST, event_request),
    (&command::KEEP_ALIVE, |_, _, _| Ok(Plan::Done(Response::SUCCESS))),
    (&command::FORMAT_NVM, format),
];

/// Operation code of Format NVM.
pub(super) const FORMAT: u8 = 0x80;

/// Most bytes of one Get Log Page: the longest page.
const MAX_LOG: u64 = 64 << 10;

fn identify(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    let nsid = field(entry, "nsid");
    let value = field(entry, "cns") as u8;
    let of_set = matches!(value, cns::SET_NAMESPACE | cns::SET_CONTROLLER | cns::SET_ACTIVE_NAMESPACES);
    // Only the NVM command set, 0.
    if of_set && field(entry, "csi") != 0 {
        return Err(invalid(entry, "csi"));
    }
    let data = match value {
        cns::CONTROLLER => pages::controller(controller),
        cns::ACTIVE_NAMESPACES | cns::SET_ACTIVE_NAMESPACES => {
            if nsid >= ALL_NAMESPACES - 1 {
                return Err(Failure::of(Status::INVALID_NAMESPACE).at(entry, "nsid"));
            }
            pages::active(nsid)
        }
        cns::SET_CONTROLLER => pages::nvm_controller(controller),
        cns::NAMESPACE | cns::DESCRIPTORS | cns::SET_NAMESPACE | cns::INDEPENDENT_NAMESPACE => {
            one_namespace(entry)?;
            match value {
                cns::NAMESPACE => pages::namespace(controller),
                cns::DESCRIPTORS => pages::descriptors(controller),
                cns::SET_NAMESPACE => vec![0; identify::LEN],
                _ => pages::independent(controller),
            }
        }
        _ => return Err(invalid(entry, "cns")),
    };
    Ok(Plan::Done(Response::data(data)))
}

fn log_page(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    let lid = field(entry, "lid") as u8;
    // A log page of the namespace is the one of the controller: it is the only one.
    if !matches!(field(entry, "nsid"), 0 | NSID | ALL_NAMESPACES) {
        return Err(Failure::of(Status::INVALID_NAMESPACE).at(entry, "nsid"));
    }
    let page = pages::log(controller, lid);
    let page = page.ok_or_else(|| Failure::of(Status::INVALID_LOG_PAGE).at(entry, "lid"))?;
    let offset = field(entry, "lpo");
    // Offsets are in bytes (OT is for pages with an index), in whole dwords.
    if !offset.is_multiple_of(4) {
        return Err(invalid(entry, "lpo"));
    }
    if field(entry, "ot") != 0 {
        return Err(invalid(entry, "ot"));
    }
    let len = entry.data_len(controller.block()).unwrap_or(0);
    if len > MAX_LOG {
        return Err(invalid(entry, "numdu"));
    }
    let data = health::part(&page, offset, len).ok_or_else(|| invalid(entry, "lpo"))?;
    // Reading the list without RAE clears the event.
    if lid == pages::CHANGED_NAMESPACES && field(entry, "rae") == 0 {
        (controller.is_changed, controller.is_reported) = (false, false);
    }
    Ok(Plan::Done(Response::data(data)))
}

/// Commands are not taken from the device once they run: bit 0 of the result says that nothing was aborted. A caller that
/// has queued the command itself answers differently.
fn abort(_: &mut Controller, _: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    Ok(Plan::Done(Response::result(1)))
}

fn event_request(controller: &mut Controller, _: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    if controller.waiting_requests == MAX_EVENT_REQUESTS {
        return Err(Failure::of(Status::EVENT_LIMIT));
    }
    controller.waiting_requests += 1;
    Ok(controller.event().map_or(Plan::Waits, Plan::Done))
}

/// The namespace reads as zeroes afterwards, with any setting for the erasure.
fn format(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    if field(entry, "nsid") != ALL_NAMESPACES {
        one_namespace(entry)?;
    }
    // One format, without metadata and protection information.
    for name in ["lbafl", "lbafu", "mset", "pi", "pil"] {
        if field(entry, name) != 0 {
            return Err(Failure::of(Status::INVALID_FORMAT).at(entry, name));
        }
    }
    // No erasure or that of user data; there is no key to be erased.
    if field(entry, "ses") > 1 {
        return Err(invalid(entry, "ses"));
    }
    if controller.is_write_protected() {
        return Err(Failure::of(Status::WRITE_PROTECTED));
    }
    let len = controller.blocks() * controller.block();
    if len == 0 {
        return Ok(Plan::Done(Response::SUCCESS));
    }
    let steps = [Action::WriteZeroes, Action::Flush].map(|action| Step { action, pos: 0, len });
    Ok(Plan::Steps(steps.into()))
}
