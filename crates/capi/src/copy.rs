//! Copies: vcopy, loans, grants. The kernel checks the addresses of copied memory.

use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::memory::{CopyRange, ReadPtr, WritePtr};
use crate::records::M3Loan;
use core::ffi::{c_int, c_long, c_uint};
use m3ipc::{
    ANY, Address, Audience, Code, Endpoint, Grant, GrantError, Lease, Location, Message, Rights,
    SELF, Timeout,
};

/// `M3_READ` and `M3_WRITE`.
const READ: c_uint = 1;
const WRITE: c_uint = 2;
/// `M3_LOANS_MAX`.
const LOANS_MAX: usize = 16;

/// What the caller's own memory is in a copy.
#[derive(Clone, Copy)]
pub(crate) enum OwnRole {
    Source,
    Target,
}

/// One side of a vcopy: an endpoint, and the range at an address in that endpoint's memory.
#[derive(Clone, Copy)]
pub(crate) struct CopySide {
    pub(crate) endpoint: Address,
    pub(crate) range: CopyRange,
}

#[inline]
pub(crate) fn vcopy(
    source: CopySide,
    destination: CopySide,
    bytes: c_long,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let bytes = u64::try_from(bytes)
            .map_err(|_| CallFailure::no(Code::Range, bytes, "number of bytes to copy"))?;
        let me = &mut member.endpoint;
        let own = me.address();
        let is_own = |side: CopySide| side.endpoint == SELF || side.endpoint == own;
        let at = |side: CopySide| Location::At(side.range.address());
        match (is_own(source), is_own(destination)) {
            (true, true) => {
                let text = format!("both sides of the copy are the caller, endpoint {own}");
                return Err(CallFailure::said(Code::Endpoint, text));
            }
            (true, false) => {
                let from = source.range.source();
                me.copy_source_to(destination.endpoint, at(destination), &from, limit)?;
            }
            (false, true) => {
                let mut into = destination.range.target();
                me.copy_into_target(source.endpoint, at(source), &mut into, limit)?;
            }
            (false, false) => {
                let from = (source.endpoint, at(source));
                me.copy_between(from, (destination.endpoint, at(destination)), bytes, limit)?;
            }
        }
        Ok(0)
    })
}

/// Reads a counter of the caller's endpoint.
pub(crate) fn counter(of: impl FnOnce(&Endpoint) -> u64) -> CallResult<c_long> {
    current::with(|member| Ok(c_long::try_from(of(&member.endpoint)).unwrap_or(c_long::MAX)))
}

/// `ranges` makes the range of a loan.
pub(crate) fn sendrec_lent(
    to: Address,
    message: WritePtr<Message>,
    loans: ReadPtr<M3Loan>,
    count: c_int,
    ranges: impl Fn(&M3Loan) -> CopyRange,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let request = message.read()?;
        message.check()?;
        let too_many = || {
            let text = format!("{count} loans are not between 0 and {LOANS_MAX}");
            CallFailure::said(Code::Range, text)
        };
        let count = usize::try_from(count).ok().filter(|count| *count <= LOANS_MAX);
        let lent: CallResult<Vec<Lease<'static>>> = (0..count.ok_or_else(too_many)?)
            .map(|index| {
                let record = loans.read_at(index)?;
                loan(ranges(&record), rights(record.rights)?)
            })
            .collect();
        let answer = member.endpoint.sendrec_leased(to, &request, &lent?, limit)?;
        message.write(answer)?;
        Ok(0)
    })
}

fn loan(range: CopyRange, rights: Rights) -> CallResult<Lease<'static>> {
    Ok(match rights {
        Rights::Read => Lease::of_source(&range.source()),
        Rights::Write => Lease::of_target(&range.target(), false),
        Rights::Both => Lease::of_target(&range.target(), true),
    })
}

fn rights(bits: c_uint) -> CallResult<Rights> {
    match bits {
        READ => Ok(Rights::Read),
        WRITE => Ok(Rights::Write),
        bits if bits == READ | WRITE => Ok(Rights::Both),
        _ => Err(Code::Inval.into()),
    }
}

pub(crate) fn grant(
    ep: Address,
    range: CopyRange,
    allowed: c_uint,
    grant: WritePtr<u64>,
) -> CallResult {
    current::with(|member| {
        grant.check()?;
        let allowed = rights(allowed)?;
        let audience = if ep == ANY { Audience::Vm } else { Audience::Only(ep) };
        let made = member.endpoint.grant_target(audience, &range.target(), allowed)?;
        grant.write(made.to_u64())?;
        Ok(0)
    })
}

pub(crate) fn revoke(grant: u64) -> CallResult {
    current::with(|member| {
        let unknown = |error: GrantError| match error {
            GrantError::Unknown => {
                CallFailure::no(error.code(), grant, "grant of the caller; it may be revoked")
            }
            other => other.into(),
        };
        member.endpoint.revoke(Grant::from_u64(grant)).map_err(unknown)?;
        Ok(0)
    })
}

/// Copies between memory of the caller and what the client `ep` lent for its request.
pub(crate) fn copy_lent(ep: Address, offset: u64, own: CopyRange, role: OwnRole) -> CallResult {
    current::with(|member| {
        let location = Location::Leased(offset);
        match role {
            OwnRole::Target => {
                let mut into = own.target();
                member.endpoint.copy_into_target(ep, location, &mut into, Timeout::Never)?;
            }
            OwnRole::Source => {
                member.endpoint.copy_source_to(ep, location, &own.source(), Timeout::Never)?;
            }
        }
        Ok(0)
    })
}

/// Copies between memory of the caller and a grant of `ep`, from `offset` on.
pub(crate) fn copy_granted(
    ep: Address,
    grant: u64,
    offset: u64,
    own: CopyRange,
    direction: c_uint,
) -> CallResult {
    current::with(|member| {
        let location = Location::Granted(Grant::from_u64(grant), offset);
        match rights(direction)? {
            Rights::Read => {
                let mut into = own.target();
                member.endpoint.copy_into_target(ep, location, &mut into, Timeout::Never)?;
            }
            Rights::Write => {
                member.endpoint.copy_source_to(ep, location, &own.source(), Timeout::Never)?;
            }
            Rights::Both => return Err(Code::Inval.into()),
        }
        Ok(0)
    })
}
