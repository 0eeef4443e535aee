"""The child process that compiles: LLVM's text comes in, position-independent code goes out.

It runs as a script, so that nothing but llvmlite is imported.
"""

from __future__ import annotations

import struct
import sys

__all__ = ["assembled", "flat"]

_ALLOC, _NOBITS, _RELA, _SYMTAB = 2, 8, 4, 2  # of ELF: flag, types of sections
_PC32, _PLT32 = 2, 4  # of x86-64: both S + A - P in 32 bits
_MACHINE = 62  # x86-64


def assembled(text: str) -> bytes:
    """Return the object file of a module of LLVM's text for this processor, loops vectorised."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, reloc="pic",
        codemodel="small",
    )  # fmt: skip
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = True
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(target.emit_object(module))


def flat(elf: bytes, name: str = "row") -> tuple[bytes, int]:
    """Return the sections of an object file laid out one after another, and where the function begins.

    All its references are relative, so it runs wherever it is put. ValueError: it asks for a function that
    is not its own, or is of another kind of machine.
    """
    if elf[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", elf, 18)[0] != _MACHINE:
        raise ValueError("no object file of x86-64")
    start, size, count = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    # name, type, flags, address, offset, size, link, info, alignment, size of an entry
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + k * size) for k in range(count)]
    code, at = bytearray(), {}
    for k, (_, kind, flags, _, offset, length, _, _, alignment, _) in enumerate(sections):
        if flags & _ALLOC and kind != _NOBITS:
            code += bytes(-len(code) % max(1, alignment))
            at[k] = len(code)
            code += elf[offset : offset + length]
    table = next(s for s in sections if s[1] == _SYMTAB)
    names = sections[table[6]][4]
    # name, info, other, section, value, size
    symbols = [struct.unpack_from("<IBBHQQ", elf, table[4] + 24 * k) for k in range(table[5] // 24)]
    for _, kind, _, _, offset, length, _, into, _, _ in sections:
        if kind != _RELA or into not in at:
            continue
        for place, info, addend in struct.iter_unpack("<QQq", elf[offset : offset + length]):
            symbol = symbols[info >> 32]
            if info & 0xFFFFFFFF not in (_PC32, _PLT32) or symbol[3] not in at:
                raise ValueError("a reference to what is not its own")
            where = at[into] + place
            struct.pack_into("<i", code, where, at[symbol[3]] + symbol[4] + addend - where)
    for symbol in symbols:
        first = names + symbol[0]
        if elf[first : elf.index(b"\0", first)] == name.encode() and symbol[3] in at:
            return bytes(code), at[symbol[3]] + symbol[4]
    raise ValueError(f"no function {name}")


if __name__ == "__main__":
    made, entry = flat(assembled(sys.stdin.read()))
    sys.stdout.buffer.write(struct.pack("<Q", entry) + made)
