use super::*;
use crate::failure::CallFailure;

const BAD: CallFailure = CallFailure::of(Code::AddrNotAvail);

fn write_ptr<T: Plain>(pointer: *mut T) -> WritePtr<T> {
    // SAFETY: each test passes memory of its own, or an address without memory.
    unsafe { WritePtr::new(pointer) }
}

#[test]
fn an_address_without_memory_is_a_code() {
    for address in [0, 8, 4095, 4096, usize::MAX - 7, usize::MAX / 2] {
        let pointer = write_ptr::<usize>(core::ptr::with_exposed_provenance_mut(address));
        assert_eq!(pointer.read(), Err(BAD), "{address:x}");
        assert_eq!(pointer.check(), Err(BAD), "{address:x}");
    }
}

#[test]
fn read_only_memory_cannot_be_written() {
    static CONSTANT: usize = 77;
    let pointer = write_ptr((&raw const CONSTANT).cast_mut());
    assert_eq!(pointer.read(), Ok(77));
    assert_eq!(pointer.check(), Err(BAD));
    let mut variable = 5_usize;
    assert_eq!(write_ptr(&raw mut variable).write(6), Ok(()));
    assert_eq!(variable, 6);
}

#[test]
fn a_text_ends_at_its_zero_or_is_too_long() {
    // SAFETY: live strings, and the null address.
    let text = |start| unsafe { ReadText::new(start) };
    assert_eq!(text(c"abc".as_ptr()).read(3), Ok(Ok(b"abc".to_vec())));
    assert_eq!(text(c"abcd".as_ptr()).read(3), Ok(Err(TooLong)));
    assert_eq!(text(core::ptr::null()).read(3), Err(BAD));
}

#[test]
fn bytes_are_checked_on_all_their_pages() {
    let source = vec![7_u8; 3 << PAGE_BITS];
    let mut room = vec![0; source.len()];
    // SAFETY: a live vector that no other thread writes.
    let bytes = unsafe { ReadBytes::new(source.as_ptr().cast(), source.len()) };
    assert_eq!(bytes.read(&mut room), Ok(()));
    assert_eq!(source, room);
    assert_eq!(bytes.with_slice(<[u8]>::to_vec), Ok(room));
    // SAFETY: the null address, and the last page of the address space.
    let (null, beyond) = unsafe {
        let end: *mut c_void = core::ptr::with_exposed_provenance_mut(usize::MAX - 100);
        (WriteBytes::new(core::ptr::null_mut(), 0), WriteBytes::new(end, 1000))
    };
    assert_eq!(null.write(&[]), Ok(()));
    assert_eq!(beyond.write(&[1; 1000]), Err(BAD));
    assert_eq!(beyond.with_slice(|_| ()), Err(BAD));
}

#[test]
fn a_known_page_answers_for_its_own_values_alone() {
    // Two pages, the second of which starts inside the vector.
    let mut memory = vec![0_u8; 3 << PAGE_BITS];
    let start = memory.as_mut_ptr();
    let page = start.wrapping_add(start.align_offset(PAGE_BYTES));
    let at = |offset: usize| write_ptr::<Message>(page.wrapping_add(offset).cast());
    let last = PAGE_BYTES - size_of::<Message>();

    let mut known = KnownPage::default();
    assert!(at(0).checked_in(known).is_none());
    // Of a value in two pages, the first one is remembered.
    for offset in [1, last, last + 1] {
        assert!(at(offset).checked_anew(&mut known).is_ok());
        assert!([0, 1, last].iter().all(|inside| at(*inside).checked_in(known).is_some()));
        assert!(
            [last + 1, PAGE_BYTES].iter().all(|beyond| at(*beyond).checked_in(known).is_none())
        );
    }
    assert!(at(0_usize.wrapping_sub(1)).checked_in(known).is_none());
}

#[test]
fn an_address_without_memory_is_in_no_known_page() {
    let mut known = KnownPage::default();
    for address in [0, 8, 4095, 4096, usize::MAX - 7, usize::MAX / 2 + 1] {
        let pointer = write_ptr::<Message>(core::ptr::with_exposed_provenance_mut(address));
        assert!(pointer.checked_in(known).is_none(), "{address:x}");
        assert_eq!(pointer.checked_anew(&mut known).map(drop), Err(BAD), "{address:x}");
    }
    let mut value = 5_u64;
    assert!(write_ptr(&raw mut value).checked_anew(&mut known).is_ok());
    assert!(write_ptr::<u64>(core::ptr::null_mut()).checked_in(known).is_none());
}

#[test]
fn many_pages_are_checked_up_to_the_last_byte() {
    const PAGES: usize = 40;
    // SAFETY: a new mapping of ours.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(core::ptr::null_mut(), PAGES << PAGE_BITS, access, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let bytes = PAGES << PAGE_BITS;
    // SAFETY: memory of ours, of which other tests know nothing.
    let whole = unsafe { WriteBytes::new(start.wrapping_byte_add(5), bytes - 5) };
    assert_eq!(whole.check(bytes), Ok(()));
    for (page, access, can_read) in [(33, libc::PROT_READ, true), (20, libc::PROT_NONE, false)] {
        let place = start.wrapping_byte_add(page << PAGE_BITS);
        // SAFETY: a page of the mapping.
        assert_eq!(unsafe { libc::mprotect(place, 1 << PAGE_BITS, access) }, 0);
        forget_pages();
        assert_eq!(whole.check(bytes), Err(BAD));
        assert_eq!(whole.check((page << PAGE_BITS) - 5), Ok(()));
        // SAFETY: as for `whole`.
        let read = unsafe { ReadBytes::new(start, bytes) };
        assert_eq!(read.with_slice(|_| ()).is_ok(), can_read);
    }
    // SAFETY: the mapping of above.
    unsafe { libc::munmap(start, bytes) };
    forget_pages();
}

fn forget_pages() {
    PAGES.with(|pages| pages.iter().for_each(|page| page.set(0)));
}

#[test]
fn steps_cover_all_bytes() {
    let all = |bytes, step| steps(bytes, step).collect::<Vec<_>>();
    assert_eq!(all(0, 10), [(0, 0)]);
    assert_eq!(all(10, 10), [(0, 10)]);
    assert_eq!(all(25, 10), [(0, 10), (10, 10), (20, 5)]);
    assert_eq!(all(25, usize::MAX), [(0, 25)]);
}

#[test]
fn zeros_without_memory_are_a_code() {
    assert_eq!(zeroed(0), Ok(Vec::new()));
    assert_eq!(zeroed(5000), Ok(vec![0; 5000]));
    assert_eq!(zeroed(isize::MAX.unsigned_abs()), Err(CallFailure::of(Code::NoMem)));
    assert_eq!(zeroed(usize::MAX), Err(CallFailure::of(Code::NoMem)));
}
