//! A sorted map from position to request, without an allocation per entry.
use super::RequestId;
/// Placeholder for the sorted map.
#[derive(Debug, Default)]
pub struct SectorMap(alloc::vec::Vec<(u64, RequestId)>);
