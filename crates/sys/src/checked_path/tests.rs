//! The walk over links, sticky directories and parents of others.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of mode 0700 that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("/tmp/m3-checked-{}-{count}", std::process::id());
        let (made, is_new) = CheckedPath::make_directory(path.as_ref(), 0o700).unwrap();
        assert!(is_new && made.is_directory() && made.mode() == 0o700);
        Self(path.into())
    }

    fn directory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_directory_is_made_once_and_is_never_changed() {
    let folder = Folder::new();
    let open = folder.directory("open", 0o755);
    let (found, is_new) = CheckedPath::make_directory(&open, 0o700).unwrap();
    assert!(!is_new && found.mode() == 0o755, "an existing directory keeps its mode");
    assert_eq!(found.user(), crate::user_id());
}

#[test]
fn a_link_at_the_end_is_refused_and_one_of_our_own_on_the_way_is_followed() {
    let folder = Folder::new();
    let target = folder.directory("target", 0o700);
    folder.directory("target/inner", 0o700);
    let link = folder.0.join("link");
    symlink(&target, &link).unwrap();
    let refused = CheckedPath::open(&link).unwrap_err();
    assert!(matches!(refused, PathFault::Link { .. }), "{refused:?}");
    let refused = CheckedPath::make_directory(&link, 0o700).unwrap_err();
    assert!(matches!(refused, PathFault::Link { .. }), "{refused:?}");
    let inner = CheckedPath::open(&link.join("inner")).unwrap();
    assert_eq!(inner.path(), target.join("inner"));
    symlink("target", folder.0.join("relative")).unwrap();
    assert!(CheckedPath::open(&folder.0.join("relative/inner/../inner")).is_ok());
}

#[test]
fn a_link_of_proc_leads_where_the_kernel_says() {
    let folder = Folder::new();
    let path = Path::new("/proc/self/root").join(folder.0.strip_prefix("/").unwrap());
    let place = CheckedPath::open(&path).unwrap();
    assert!(place.is_own() && place.mode() == 0o700 && !place.is_roots_way());
}

#[test]
fn a_circle_of_links_ends() {
    let folder = Folder::new();
    symlink("b", folder.0.join("a")).unwrap();
    symlink("a", folder.0.join("b")).unwrap();
    let refused = CheckedPath::open(&folder.0.join("a/x")).unwrap_err();
    assert!(matches!(refused, PathFault::System { errno: Errno::LOOP, .. }), "{refused:?}");
}

#[test]
fn a_parent_that_others_can_write_must_be_sticky() {
    let folder = Folder::new();
    let group = rustix::process::getegid().as_raw();
    let is_own_group = crate::only_user_of_group(group) == Some(crate::user_id());
    for (name, mode, is_safe) in
        [("all", 0o777, false), ("group", 0o770, is_own_group), ("sticky", 0o1777, true)]
    {
        let inner = folder.directory(name, mode).join("inner");
        let made = CheckedPath::make_directory(&inner, 0o700);
        assert_eq!(made.is_ok(), is_safe, "{name}: {made:?}");
        if !is_safe {
            assert!(matches!(made.unwrap_err(), PathFault::Parent { .. }));
            assert!(!inner.exists(), "nothing is made in a directory of others");
        }
    }
}

/// The group's bits of a file with a list of users are the mask of that list.
#[test]
fn a_parent_with_a_list_of_users_is_not_of_its_group_alone() {
    let folder = Folder::new();
    let parent = folder.directory("listed", 0o770);
    let (fd, stat) = open_place(rustix::fs::CWD, &parent).unwrap();
    assert!(names_no_user(&fd));
    // The version; then a tag, rights and a number each: owner, user 12345, group, mask, others.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 7_u16, !0), (2, 7, 12_345), (4, 0, !0), (16, 7, !0), (32, 0, !0)]
    {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(u32::to_le_bytes(id));
    }
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&parent, "system.posix_acl_access", &list, flags) {
        Err(Errno::OPNOTSUPP) => return println!("SKIP lists of users: the file system has none"),
        set => set.unwrap(),
    }
    assert!(!names_no_user(&fd));
    // Also where the group is that of the owner alone.
    assert!(others_may_write(&fd, &stat, |_user| true));
}

#[test]
fn an_absent_part_is_named() {
    let refused = CheckedPath::open("/nonexistent/m3/x".as_ref()).unwrap_err();
    let absent = PathFault::System { path: "/nonexistent".into(), errno: Errno::NOENT };
    assert_eq!(refused, absent);
    let refused = CheckedPath::open("/proc/version/x".as_ref()).unwrap_err();
    assert!(matches!(refused, PathFault::System { errno: Errno::NOTDIR, .. }), "{refused:?}");
}

const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

#[test]
fn a_socket_is_reached_through_the_directory() {
    let folder = Folder::new();
    let place = CheckedPath::open(&folder.0).unwrap();
    assert_eq!(place.connect("s", LIMIT).unwrap_err(), Errno::NOENT);
    let listener = crate::listen(&folder.0.join("s"), 0o640).unwrap();
    assert_eq!(CheckedPath::open(&folder.0.join("s")).unwrap().mode(), 0o640, "not the umask's");
    let socket = place.connect("s", LIMIT).unwrap();
    assert_eq!(crate::peer_user(&socket), Ok(crate::user_id()));
    drop(listener);
    assert_eq!(place.connect("s", LIMIT).unwrap_err(), Errno::CONNREFUSED);
}

#[test]
fn only_a_plain_file_is_opened() {
    let folder = Folder::new();
    let place = CheckedPath::open(&folder.0).unwrap();
    std::fs::write(folder.0.join("file"), "x").unwrap();
    assert!(place.open_file(OsStr::new("file")).is_ok());
    symlink("file", folder.0.join("link")).unwrap();
    assert_eq!(place.open_file(OsStr::new("link")).unwrap_err(), Errno::LOOP);
    let fifo = FileType::Fifo;
    rustix::fs::mknodat(&place, "fifo", fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert_eq!(place.open_file(OsStr::new("fifo")).unwrap_err(), Errno::INVAL);
}
