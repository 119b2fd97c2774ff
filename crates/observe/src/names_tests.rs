// SPDX-License-Identifier: GPL-2.0-only
use super::*;

const UUID: &str = "c7a5fdbd-edaf-9455-926a-d65c16db1809";

fn vm(process: u32, line: &str) -> Identity {
    let line: Vec<String> = line.split(' ').map(String::from).collect();
    Identity::of(process, &line, false)
}

fn names(line: &str) -> Vec<String> {
    let Identity { name, others, .. } = vm(1, line);
    name.into_iter().chain(others).collect()
}

/// Whoever starts a VM names it, and a table of names has a line for each.
#[test]
fn a_name_is_one_line() {
    let named = Identity::of(1, &["firecracker", "--id", "a\nb\x1b[1m"].map(String::from), false);
    assert_eq!(named.name.as_deref(), Some("a\\u000ab\\u001b[1m"));
    assert!(named.is_called("a\nb\x1b[1m") && named.is_called("a\\u000ab\\u001b[1m"));
}

#[test]
fn each_vmm_has_a_way_to_name_its_vm() {
    let libvirt = format!(
        "/usr/bin/qemu-system-x86_64 -name guest=web,debug-threads=on -S -uuid {UUID} -display none"
    );
    let proxmox = format!(
        "/usr/bin/kvm -id 100 -name db.example,debug-threads=on -smbios type=1,uuid={UUID} -m 64"
    );
    for (line, expected) in [
        (libvirt.as_str(), vec!["web", UUID]),
        (&proxmox, vec!["db.example", "100", UUID]),
        ("qemu-system-x86_64 -name plain", vec!["plain"]),
        ("qemu-system-x86_64 -name first -uuid 1 -name second -uuid 2", vec!["second", "2"]),
        ("qemu-kvm -name process=x,guest=a,,b", vec!["a,b"]),
        ("kvm -id 7 -m 64", vec!["7"]),
        ("qemu-system-x86_64 -name debug-threads=on", vec![]),
        ("qemu-system-x86_64 -name", vec![]),
        ("/usr/local/bin/firecracker --api-sock /run/f.sock --id vm-17", vec!["vm-17"]),
        ("firecracker-v1.7.0-x86_64 --id=vm-18 --no-api", vec!["vm-18"]),
        ("firecracker --api-sock /run/f.sock", vec![]),
        ("cloud-hypervisor --api-socket /run/ch/web.sock --kernel k", vec!["web"]),
        ("cloud-hypervisor --api-socket path=/run/vc/vm/5f3a/clh-api.sock", vec!["5f3a"]),
        ("cloud-hypervisor --kernel k", vec![]),
        ("/usr/bin/crosvm run --name termina --cpus 4", vec!["termina"]),
        ("crosvm --extended-status run --name=borealis", vec!["borealis"]),
        ("lkvm run --name guest-12", vec!["guest-12"]),
        ("/opt/own-vmm config.toml", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(names(line), expected, "{line}");
    }
}

#[test]
fn a_domain_of_kubevirt_s_is_named_with_its_namespace() {
    let line = ["qemu-kvm", "-name", "guest=shop_web-1,debug-threads=on"].map(String::from);
    let pod = Identity::of(1, &line, true);
    assert_eq!(pod.name.as_deref(), Some("shop/web-1"));
    assert_eq!(pod.others, ["shop_web-1"]);
    assert_eq!(Identity::of(1, &line, false).name.as_deref(), Some("shop_web-1"));
}

#[test]
fn libvirt_s_file_names_the_domain_of_its_process() {
    let xml = format!(
        "<domstatus state='running' reason='booted' pid='412'>\n  <domain type='kvm'>\n    \
         <name>a &amp; b</name>\n    <uuid>{UUID}</uuid>\n"
    );
    let found = of_domain(&xml, 412).unwrap();
    assert_eq!((found.name.as_deref(), &found.others[..]), (Some("a & b"), &[UUID.into()][..]));
    assert_eq!(of_domain(&xml, 41), None);
    assert_eq!(of_domain("<domain><name>off</name></domain>", 412), None);
}

#[test]
fn a_vm_is_wanted_by_name_uuid_number_or_process() {
    let line = format!("kvm -id 100 -name web -uuid {UUID}");
    let [web, db] = [vm(41, &line), vm(100, "kvm -name db")];
    let wants = |word: &str| {
        let wanted = Wanted::of(&[word.into()], &[web.clone(), db.clone()]);
        wanted.map(|wanted| (wanted.has(&web), wanted.has(&db)))
    };
    for word in ["web", "41", UUID, &UUID.to_uppercase()] {
        assert_eq!(wants(word), Ok((true, false)), "{word}");
    }
    // A process comes first: 100 is also what Proxmox calls the other one.
    for word in ["db", "100"] {
        assert_eq!(wants(word), Ok((false, true)), "{word}");
    }
    let error = wants("WEB").unwrap_err().to_string();
    assert_eq!(
        error,
        "no VM 'WEB' runs on this machine\nhint: give one of these: web (pid 41), db (pid 100)"
    );
    assert!(Wanted::of(&[], &[]).unwrap().has(&web));
}

#[test]
fn a_name_that_two_have_asks_for_the_process() {
    let both = [vm(41, "kvm -name web"), vm(52, "kvm -name web"), vm(60, "kvm -name db")];
    let error = Wanted::of(&["db".into(), "web".into()], &both).unwrap_err().to_string();
    assert_eq!(
        error,
        "2 VMs are called 'web'\n\
         hint: give the process of one of them: web (pid 41), web (pid 52)"
    );
    assert!(Wanted::of(&["52".into()], &both).unwrap().has(&both[1]));
}
