//! The events that one epoll wait returns, in the program's own array.
//!
//! # Safety
//! The first `filled` events of the array are initialised. Only [`push`](EventList::push) and
//! [`append`](EventList::append) raise that number, after they wrote the events.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use libc::epoll_event;

/// The events of one wait.
#[derive(Debug)]
pub struct EventList<'a> {
    events: &'a mut [MaybeUninit<epoll_event>],
    filled: usize,
}

impl<'a> EventList<'a> {
    /// An empty list over an array.
    #[must_use]
    pub fn new(events: &'a mut [MaybeUninit<epoll_event>]) -> Self {
        Self { events, filled: 0 }
    }

    /// Events in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether the list has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Whether no event fits any more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.filled == self.events.len()
    }

    /// Removes all events.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Appends an event; a full list drops it.
    pub fn push(&mut self, event: epoll_event) {
        if let Some(cell) = self.events.get_mut(self.filled) {
            cell.write(event);
            self.filled += 1;
        }
    }

    /// Appends the events that a call writes: `call` gets the address of the free part and the
    /// number of events that fit there, and returns the number of events that it wrote.
    ///
    /// # Errors
    /// The error of the call.
    ///
    /// # Safety
    /// `call` has written as many events as it returns, at that address.
    pub unsafe fn append<E>(
        &mut self,
        call: impl FnOnce(*mut epoll_event, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let free = &mut self.events[self.filled..];
        let written = call(free.as_mut_ptr().cast(), free.len())?.min(free.len());
        self.filled += written;
        Ok(written)
    }

    /// The events from an index on.
    #[must_use]
    pub fn since(&self, first: usize) -> &[epoll_event] {
        self.events.get(first..self.filled).map_or(&[], |events| {
            // SAFETY: the first `filled` events are initialised; the layouts are the same.
            unsafe { &*(core::ptr::from_ref(events) as *const [epoll_event]) }
        })
    }

    fn all_mut(&mut self) -> &mut [epoll_event] {
        let events = &mut self.events[..self.filled];
        // SAFETY: the first `filled` events are initialised; the layouts are the same.
        unsafe { &mut *(core::ptr::from_mut(events) as *mut [epoll_event]) }
    }

    /// Removes the first event from `first` on that has these data; whether there was such an
    /// event.
    pub fn remove(&mut self, first: usize, data: u64) -> bool {
        let Some(found) = self.since(first).iter().position(|event| event.u64 == data) else {
            return false;
        };
        self.all_mut().copy_within(first + found + 1.., first + found);
        self.filled -= 1;
        true
    }

    /// Joins each event from `first` on with the event of the same data before `first`.
    ///
    /// Neither part has the same data twice.
    pub fn merge(&mut self, first: usize) {
        let mut end = first;
        let events = self.all_mut();
        if first == 0 || first >= events.len() {
            return;
        }
        for at in first..events.len() {
            let event = events[at];
            let data = event.u64;
            match events[..first].iter().position(|before| before.u64 == data) {
                Some(same) => {
                    let joined = events[same].events | event.events;
                    events[same] = epoll_event { events: joined, u64: data };
                }
                None => {
                    events[end] = event;
                    end += 1;
                }
            }
        }
        self.filled = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(events: u32, u64: u64) -> epoll_event {
        epoll_event { events, u64 }
    }

    fn content(list: &EventList<'_>) -> Vec<(u32, u64)> {
        list.since(0).iter().map(|event| (event.events, event.u64)).collect()
    }

    #[test]
    fn one_event_is_left_for_each_descriptor() {
        let mut array = [const { MaybeUninit::uninit() }; 5];
        let mut list = EventList::new(&mut array);
        list.push(event(1, 7));
        list.push(event(1, 8));
        list.push(event(4, 8));
        list.push(event(4, 9));
        list.merge(2);
        assert_eq!(content(&list), [(1, 7), (5, 8), (4, 9)]);
        assert!(list.remove(1, 8) && !list.remove(1, 7));
        assert_eq!(content(&list), [(1, 7), (4, 9)]);
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let mut array = [const { MaybeUninit::uninit() }; 2];
        let mut list = EventList::new(&mut array);
        (0..3).for_each(|data| list.push(event(1, data)));
        assert!(list.is_full());
        // SAFETY: a full list has room for 0 events.
        assert_eq!(unsafe { list.append(|_at, room| Ok::<_, ()>(room)) }, Ok(0));
        assert_eq!(content(&list), [(1, 0), (1, 1)]);
        list.clear();
        assert!(list.is_empty() && content(&list).is_empty());
    }
}
