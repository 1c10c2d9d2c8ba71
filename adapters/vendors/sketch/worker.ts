import { readFile } from 'node:fs/promises'
import { parentPort } from 'node:worker_threads'
import { crc32 } from 'node:zlib'
import { initWasm, Resvg } from '@resvg/resvg-wasm'
import wasm from '@resvg/resvg-wasm/index_bg.wasm' with { type: 'file' }
import { LABEL, sceneOf, type Sketch } from './scene.ts'

/** One answer per sketch, in order: the picture as a data URI, or why there is none. */
export type Answer = { url: string } | { error: string }

const SIGNATURE_AND_IHDR = 8 + 25

const ready = readFile(wasm).then((bytes) => initWasm(bytes))

parentPort?.on('message', async (sketch: Sketch) => {
  try {
    await ready
    const answer: Answer = { url: `data:image/png;base64,${Buffer.from(pngOf(sketch)).toString('base64')}` }
    parentPort?.postMessage(answer)
  } catch (cause) {
    const answer: Answer = { error: cause instanceof Error ? cause.message : String(cause) }
    parentPort?.postMessage(answer)
  }
})

function pngOf(sketch: Sketch): Uint8Array {
  const drawing = new Resvg(sceneOf(sketch), { font: { loadSystemFonts: false } })
  const image = drawing.render()
  try {
    return labelled(image.asPng(), sketch.prompt)
  } finally {
    image.free()
    drawing.free()
  }
}

/** The PNG with text chunks behind its header that say what made it, and from which words. */
function labelled(png: Uint8Array, prompt: string): Uint8Array {
  const title = prompt.slice(0, 300).replace(/\p{Cc}/gu, ' ')
  return Buffer.concat([
    png.subarray(0, SIGNATURE_AND_IHDR),
    chunk('tEXt', 'Software\u0000Farebox sketch'),
    chunk('tEXt', `Description\u0000${LABEL}`),
    chunk('iTXt', `Title\u0000\u0000\u0000\u0000\u0000${title}`),
    png.subarray(SIGNATURE_AND_IHDR),
  ])
}

function chunk(type: 'tEXt' | 'iTXt', text: string): Uint8Array {
  const body = Buffer.from(type + text)
  const framed = Buffer.alloc(body.length + 8)
  framed.writeUInt32BE(body.length - 4, 0)
  body.copy(framed, 4)
  framed.writeUInt32BE(crc32(body), body.length + 4)
  return framed
}
