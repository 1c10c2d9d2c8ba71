/** SVG to pixels: the one door to resvg. No fonts, no files, no network. */
import { readFile } from 'node:fs/promises'
import { initWasm, Resvg } from '@resvg/resvg-wasm'
import wasm from '@resvg/resvg-wasm/index_bg.wasm' with { type: 'file' }

const ready = readFile(wasm).then((bytes) => initWasm(bytes))

export async function drawnPng(svg: string): Promise<Uint8Array> {
  await ready
  return rendered(svg, (image) => image.asPng())
}

/** RGBA, premultiplied, four bytes a pixel. */
export async function drawnPixels(svg: string): Promise<Uint8Array> {
  await ready
  return rendered(svg, (image) => image.pixels)
}

type Rendered = ReturnType<InstanceType<typeof Resvg>['render']>

function rendered(svg: string, read: (image: Rendered) => Uint8Array): Uint8Array {
  const drawing = new Resvg(svg, { font: { loadSystemFonts: false } })
  try {
    const image = drawing.render()
    try {
      return read(image)
    } finally {
      image.free()
    }
  } finally {
    drawing.free()
  }
}
