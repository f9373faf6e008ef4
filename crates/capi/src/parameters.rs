//! Parameters that the environment gives: `M3_DRVS_PARAMETERS` and `M3_VM_PARAMETERS`.
//!
//! Each names a source of [`Parameters`]: words, a file, a program, or a directory. A field of a
//! record that is 0 or empty takes the value of the source. So an administrator configures a
//! program that knows nothing of files or directories.

use crate::failure::CallResult;
use crate::records::{DrvsUsr, Name, VmUsr, life_of, name_of, set_of};
use core::ffi::{c_int, c_uint};
use m3ipc::{Code, Parameters};

/// The parameters of the source in a variable, if there is one.
fn of_variable(variable: &str, name: &str) -> CallResult<Option<Parameters>> {
    // A program with more rights than its user ignores it.
    match m3ipc_sys::text_variable(variable) {
        Some(source) => Ok(Some(Parameters::read(&source, name)?)),
        None => Ok(None),
    }
}

fn fill(field: &mut c_int, value: Option<c_int>) {
    if *field == 0 {
        *field = value.unwrap_or(0);
    }
}

fn fill_name(field: &mut Name, value: Option<&str>) {
    if field.first() == Some(&0)
        && let Some(value) = value
    {
        *field = name_of(value);
    }
}

/// Fills the record of a new node. Returns the id that the source gives it.
pub(crate) fn fill_node(wanted: &mut DrvsUsr) -> CallResult<Option<c_int>> {
    let Some(given) = of_variable("M3_DRVS_PARAMETERS", "")? else { return Ok(None) };
    fill_node_by(wanted, &given)
}

fn fill_node_by(wanted: &mut DrvsUsr, given: &Parameters) -> CallResult<Option<c_int>> {
    fill(&mut wanted.d_nr_vms, given.number("vms")?);
    fill(&mut wanted.d_nr_nodes, given.number("nr_nodes")?);
    fill(&mut wanted.d_nr_procs, given.number("procs")?);
    fill(&mut wanted.d_nr_tasks, given.number("tasks")?);
    fill(&mut wanted.d_max_copylen, given.number("max_copy_bytes")?);
    fill_name(&mut wanted.d_name, given.text("name"));
    Ok(given.number("nodeid")?)
}

/// Fills the record of a new VM. The source is asked for its name, or else for its number.
pub(crate) fn fill_vm(wanted: &mut VmUsr) -> CallResult<()> {
    let name = crate::vm_name::name_bytes(&wanted.vm_name)?;
    let name = String::from_utf8(name).map_err(|_not_utf8| Code::BadValue)?;
    let asked = if name.is_empty() { wanted.vm_vmid.to_string() } else { name };
    match of_variable("M3_VM_PARAMETERS", &asked)? {
        Some(given) => fill_vm_by(wanted, &given),
        None => Ok(()),
    }
}

fn fill_vm_by(wanted: &mut VmUsr, given: &Parameters) -> CallResult<()> {
    fill(&mut wanted.vm_vmid, given.number("vmid")?);
    fill_name(&mut wanted.vm_name, given.text("name"));
    fill(&mut wanted.vm_nr_procs, given.number("procs")?);
    fill(&mut wanted.vm_nr_tasks, given.number("tasks")?);
    fill(&mut wanted.vm_grace_ms, given.number("grace_ms")?);
    if wanted.vm_nodes == 0 {
        wanted.vm_nodes = given.numbers("nodes")?.into_iter().fold(0, |set, id| set | set_of(id));
    }
    if wanted.vm_mode == 0 {
        let mode = given.number("mode")?.unwrap_or(0);
        wanted.vm_mode = c_uint::try_from(mode).map_err(|_negative| Code::BadValue)?;
    }
    if wanted.vm_copy == 0 {
        wanted.vm_copy = c_uint::from(given.copy_granted()?.unwrap_or(false));
    }
    if wanted.vm_life == 0 {
        wanted.vm_life = given.life()?.map_or(0, life_of);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::CallFailure;
    use crate::records::bytes_of;

    #[test]
    fn a_source_fills_the_fields_that_are_zero() {
        let words = "vmid=3 name=shop nodes=1,2 procs=64 tasks=7 mode=0640 grace_ms=5 \
                     copy=granted life=members";
        let given = Parameters::read(words, "").expect("words");
        let mut vm = VmUsr { vm_nr_procs: 9, ..VmUsr::default() };
        fill_vm_by(&mut vm, &given).expect("all are in range");
        assert_eq!((vm.vm_vmid, vm.vm_nr_procs, vm.vm_nr_tasks, vm.vm_mode), (3, 9, 7, 0o640));
        assert_eq!((vm.vm_nodes, vm.vm_grace_ms, vm.vm_copy, vm.vm_life), (0b110, 5, 1, 2));
        assert_eq!(bytes_of(&vm.vm_name).as_deref(), Some(&b"shop"[..]));
        let mut own = VmUsr { vm_name: name_of("mine"), vm_life: 1, ..VmUsr::default() };
        fill_vm_by(&mut own, &given).expect("all are in range");
        assert_eq!((bytes_of(&own.vm_name).as_deref(), own.vm_life), (Some(&b"mine"[..]), 1));

        let given = Parameters::read("nodeid=2 vms=4 name=lab max_copy_bytes=8", "");
        let mut node = DrvsUsr { d_nr_vms: 5, ..DrvsUsr::default() };
        let id = fill_node_by(&mut node, &given.expect("words")).expect("all are in range");
        assert_eq!((id, node.d_nr_vms, node.d_max_copylen), (Some(2), 5, 8));
        let wrong = Parameters::read("procs=x", "").expect("words");
        assert_eq!(fill_vm_by(&mut VmUsr::default(), &wrong), Err(CallFailure::of(Code::BadValue)));
    }
}
